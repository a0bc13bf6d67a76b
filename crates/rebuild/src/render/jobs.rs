//! Jobs of handoffs, and where a workspace is.

use provision::{JobDocument, JobShown, ProvisionStatus, StepShown};
use run::workspace::WorkspaceDryRun;

use super::table::{Cell, table};
use crate::stream::{Look, Tone, clean};

/// A line a job.
pub(crate) fn jobs(jobs: &[JobShown], look: Look) -> String {
    if jobs.is_empty() {
        return "no job is on record\n".to_owned();
    }
    let rows: Vec<_> = jobs
        .iter()
        .map(|job| {
            vec![
                job.id.as_str().into(),
                Cell(job.status.clone(), Some(tone(&job.status))),
                clean(&job.kind).into_owned().into(),
                clean(&format!("{} of {}", job.workspace, job.target))
                    .into_owned()
                    .into(),
                clean(&job.playbook).into_owned().into(),
                job.created.as_str().into(),
            ]
        })
        .collect();
    let mut text = table(&rows, "", look);
    for job in jobs.iter().filter(|job| job.is_held()) {
        text.push_str(&format!(
            "job {} is {}`rebuild jobs resume {}` goes on with it\n",
            job.id,
            held(job),
            job.id
        ));
    }
    text
}

/// Who has a job of whom nothing is known from here, and when it is free.
fn held(job: &JobShown) -> String {
    format!(
        "held by {}, on another machine or in another container: from here nobody can tell whether it lives. Once the lock \
         of target {} is free, ",
        clean(job.runner.as_deref().unwrap_or_default()),
        clean(&job.target)
    )
}

/// One job, step by step, and what to type next.
pub(crate) fn job(document: &JobDocument, look: Look) -> String {
    let mut text = whole(&document.job, look);
    add_next(&mut text, &document.next);
    text
}

/// Where a workspace is.
pub(crate) fn provision_status(status: &ProvisionStatus, look: Look) -> String {
    let (word, tone) = if status.stands {
        ("stands", Tone::Good)
    } else {
        ("nothing stands", Tone::Quiet)
    };
    let mut text = format!(
        "workspace {} of {}: {}\n",
        clean(&status.workspace),
        clean(&status.target),
        look.paint(tone, word)
    );
    match &status.job {
        Some(job) => text.push_str(&whole(job, look)),
        None => text.push_str("no job is on record\n"),
    }
    if !status.outputs.is_empty() {
        text.push_str("outputs\n");
        for (name, value) in &status.outputs {
            text.push_str(&format!("  {name} = {}\n", clean(&value.to_string())));
        }
    }
    add_next(&mut text, &status.next);
    text
}

/// What a teardown would destroy.
pub(crate) fn provision_dry_run(dry: &WorkspaceDryRun, look: Look) -> String {
    if dry.addresses.is_empty() {
        return format!("nothing stands of workspace {}\n", clean(&dry.workspace));
    }
    let heading = format!(
        "workspace {} of {}",
        clean(&dry.workspace),
        clean(&dry.target)
    );
    let mut text = format!("{}\n", look.paint(Tone::Strong, &heading));
    for address in &dry.addresses {
        text.push_str(&format!("  {}\n", clean(address)));
    }
    text.push_str("nothing was touched\n");
    text
}

fn whole(job: &JobShown, look: Look) -> String {
    let mut text = format!(
        "job {}: {} ({} {} with {})\n",
        job.id,
        look.paint(tone(&job.status), &job.status),
        clean(&job.kind),
        clean(&job.workspace),
        clean(&job.playbook)
    );
    if let Some(runner) = &job.runner {
        text.push_str(&if job.is_held() {
            format!("{}the job goes on\n", held(job))
        } else {
            format!("run by {}\n", clean(runner))
        });
    }
    if let Some(abandoned) = &job.abandoned {
        text.push_str(&format!("given up {}\n", clean(abandoned)));
    }
    let rows: Vec<_> = job.steps.iter().map(row).collect();
    text.push_str(&table(&rows, "  ", look));
    let errors = job.steps.iter().filter_map(|step| step.error.as_deref());
    for error in errors {
        text.push_str(&format!("  {}\n", clean(error)));
    }
    text
}

fn row(step: &StepShown) -> Vec<Cell> {
    let times = if step.attempts > 1 {
        format!("begun {} times", step.attempts)
    } else {
        String::new()
    };
    let when = match (&step.started, &step.ended) {
        (Some(started), Some(ended)) => format!("{started} to {ended}"),
        (Some(started), None) => format!("since {started}"),
        _ => String::new(),
    };
    vec![
        clean(&step.name).into_owned().into(),
        Cell(step.status.clone(), Some(tone(&step.status))),
        when.into(),
        times.into(),
    ]
}

fn add_next(text: &mut String, next: &[String]) {
    if next.is_empty() {
        return;
    }
    text.push_str("next\n");
    for command in next {
        text.push_str(&format!("  {}\n", clean(command)));
    }
}

fn tone(status: &str) -> Tone {
    match status {
        "succeeded" => Tone::Good,
        "failed" | "interrupted" | "cut" => Tone::Bad,
        "running" | "held" | "started" | "paused" => Tone::Warn,
        _ => Tone::Quiet,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown() -> JobShown {
        let step = |name: &str, status: &str| StepShown {
            name: name.to_owned(),
            status: status.to_owned(),
            attempts: u32::from(status != "pending"),
            started: (status != "pending").then(|| "2026-12-01T10:00:00Z".to_owned()),
            ended: (status == "succeeded").then(|| "2026-12-01T10:00:05Z".to_owned()),
            outputs: None,
            error: (status == "failed").then(|| "2 hosts did not answer".to_owned()),
        };
        JobShown {
            id: "01KB".to_owned(),
            kind: "provision".to_owned(),
            platform: "lab".to_owned(),
            target: "drill".to_owned(),
            workspace: "prod".to_owned(),
            playbook: "playbooks/site.yml".to_owned(),
            status: "failed".to_owned(),
            runner: None,
            created: "2026-12-01T10:00:00Z".to_owned(),
            abandoned: None,
            steps: vec![
                step("apply", "succeeded"),
                step("await", "failed"),
                step("ansible", "pending"),
            ],
        }
    }

    const PLAIN: Look = Look {
        color: false,
        unicode: false,
    };

    #[test]
    fn a_job_is_told_step_by_step_with_what_to_type() {
        let document = JobDocument {
            schema: 1,
            job: shown(),
            next: vec!["rebuild jobs resume 01KB".to_owned()],
        };
        let text = job(&document, PLAIN);
        for line in [
            "job 01KB: failed (provision prod with playbooks/site.yml)\n",
            "  apply    succeeded  2026-12-01T10:00:00Z to 2026-12-01T10:00:05Z\n",
            "  await    failed     since 2026-12-01T10:00:00Z\n",
            "  ansible  pending\n",
            "  2 hosts did not answer\n",
            "next\n  rebuild jobs resume 01KB\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(jobs(&[shown()], PLAIN).starts_with("01KB  failed  provision  prod of drill  "));
    }

    #[test]
    fn a_job_that_is_held_elsewhere_is_told_with_its_holder_and_the_way_on() {
        let mut held = shown();
        held.status = "held".to_owned();
        held.runner = Some("`provision run` by ada on box (pid 7), since 10:00".to_owned());
        let list = jobs(&[shown(), held.clone()], PLAIN);
        let line = list.lines().last().unwrap_or_default();
        for words in [
            "job 01KB is held by `provision run` by ada on box",
            "Once the lock of target drill is free",
            "`rebuild jobs resume 01KB` goes on",
        ] {
            assert!(line.contains(words), "no {words:?} in {list}");
        }
        let document = JobDocument {
            schema: 1,
            job: held,
            next: Vec::new(),
        };
        assert!(job(&document, PLAIN).contains("held by `provision run` by ada"));
    }

    #[test]
    fn a_workspace_is_told_with_its_outputs() {
        let status = ProvisionStatus {
            schema: 1,
            platform: "lab".to_owned(),
            target: "drill".to_owned(),
            workspace: "prod".to_owned(),
            stands: true,
            job: None,
            outputs: [("hosts".to_owned(), json!({}))].into(),
            next: Vec::new(),
        };
        let text = provision_status(&status, PLAIN);
        assert_eq!(
            text,
            "workspace prod of drill: stands\nno job is on record\noutputs\n  hosts = {}\n"
        );
    }
}
