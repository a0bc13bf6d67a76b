//! Works on several steps at once, while one thread alone decides and stores.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::thread;

use crate::StepId;

/// One step to work on.
pub(crate) struct Job {
    pub(crate) step: StepId,
    /// The steps that must have ended well before this one may begin.
    pub(crate) waits_for: BTreeSet<StepId>,
}

/// The worker panicked, which is a fault of the program.
pub(crate) struct Panicked;

/// Decides for the crew, on the thread that called [`work`].
pub(crate) trait Desk<Q, R> {
    /// Says whether another job may begin.
    fn may_begin(&mut self) -> bool;
    /// Answers what a worker asks for; the worker waits.
    fn ask(&mut self, step: &StepId, question: Q) -> bool;
    /// Takes the result of a job and says whether it ended well.
    fn done(&mut self, step: &StepId, result: Result<R, Panicked>) -> bool;
}

enum Message<Q, R> {
    Ask {
        index: usize,
        question: Q,
        reply: Sender<bool>,
    },
    Done {
        index: usize,
        result: Result<R, Panicked>,
    },
}

/// A worker's line to the desk.
pub(crate) struct Line<Q, R> {
    index: usize,
    desk: Sender<Message<Q, R>>,
}

impl<Q, R> Line<Q, R> {
    /// Asks the desk and waits for its answer; no desk is a no.
    pub(crate) fn ask(&self, question: Q) -> bool {
        let (reply, answer) = mpsc::channel();
        let asked = self.desk.send(Message::Ask {
            index: self.index,
            question,
            reply,
        });
        asked.is_ok() && answer.recv().unwrap_or(false)
    }
}

/// Works on the jobs, at most `limit` at once, each begun as soon as what it waits for has ended
/// well and the desk lets it. Returns when nothing is at work and nothing more may begin.
pub(crate) fn work<Q: Send, R: Send>(
    jobs: &[Job],
    limit: NonZeroUsize,
    worker: &(dyn Fn(&StepId, &Line<Q, R>) -> R + Sync),
    desk: &mut dyn Desk<Q, R>,
) {
    let mut waiting: Vec<usize> = (0..jobs.len()).collect();
    let mut ended_well = BTreeSet::new();
    let mut n_at_work = 0;
    let (sender, messages) = mpsc::channel::<Message<Q, R>>();
    thread::scope(|scope| {
        loop {
            while n_at_work < limit.get() {
                let ready = |index: &usize| jobs[*index].waits_for.is_subset(&ended_well);
                let Some(at) = waiting.iter().position(ready) else {
                    break;
                };
                if !desk.may_begin() {
                    break;
                }
                let index = waiting.remove(at);
                let line = Line {
                    index,
                    desk: sender.clone(),
                };
                n_at_work += 1;
                scope.spawn(move || {
                    let result =
                        catch_unwind(AssertUnwindSafe(|| worker(&jobs[index].step, &line)))
                            .map_err(|_| Panicked);
                    // The desk is there until every worker has sent this.
                    let _ = line.desk.send(Message::Done { index, result });
                });
            }
            if n_at_work == 0 {
                return;
            }
            match messages.recv() {
                Ok(Message::Ask {
                    index,
                    question,
                    reply,
                }) => {
                    // A worker that does not wait for its answer needs none.
                    let _ = reply.send(desk.ask(&jobs[index].step, question));
                }
                Ok(Message::Done { index, result }) => {
                    n_at_work -= 1;
                    if desk.done(&jobs[index].step, result) {
                        ended_well.insert(jobs[index].step.clone());
                    }
                }
                Err(mpsc::RecvError) => return,
            }
        }
    });
}
