//! Bodies on their way: taken in within limits, sent out part by part.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use store::{Body, BodyWriter, CHUNK};
use tokio::task::{JoinHandle, spawn_blocking};

/// So much is gathered before it is handed on to be written, in bytes.
const GATHERED: usize = CHUNK;

/// Why a body was not taken in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IntakeError {
    #[error(
        "the body is longer than {most} bytes, which is the most that is taken here (`state_mib` of `[limits]` for a state)"
    )]
    Long { most: u64 },
    #[error("the body ended before its end")]
    Cut,
    #[error("nothing more of the body came for {} s", .0.as_secs())]
    Slow(Duration),
    #[error("the body can't be kept")]
    Kept(#[source] io::Error),
}

/// Takes a body in; at most `most` bytes, and never without a byte for longer than `patience`.
pub(crate) async fn take_in(
    mut incoming: Incoming,
    writer: impl FnOnce() -> io::Result<BodyWriter> + Send + 'static,
    most: u64,
    patience: Duration,
) -> Result<Body, IntakeError> {
    if incoming.size_hint().lower() > most {
        return Err(IntakeError::Long { most });
    }
    let mut gathered = Vec::new();
    let mut n_bytes = 0;
    let mut writing = None;
    let mut writer = Some(writer);
    loop {
        let next = tokio::time::timeout(patience, incoming.frame()).await;
        let frame = match next.map_err(|_| IntakeError::Slow(patience))? {
            None => break,
            Some(Ok(frame)) => frame,
            Some(Err(_)) => return Err(IntakeError::Cut),
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        n_bytes += data.len() as u64;
        if n_bytes > most {
            return Err(IntakeError::Long { most });
        }
        gathered.extend_from_slice(&data);
        if gathered.len() >= GATHERED {
            let part = std::mem::take(&mut gathered);
            writing = Some(written(writing, writer.take(), part).await?);
        }
    }
    if writing.is_none() {
        // It fits into memory, so no file is needed.
        return Ok(Body::from(gathered));
    }
    let writer = written(writing, writer.take(), gathered).await?;
    spawn_blocking(move || writer.finish())
        .await
        .map_err(|error| IntakeError::Kept(io::Error::other(error)))?
        .map_err(IntakeError::Kept)
}

async fn written(
    writing: Option<BodyWriter>,
    make: Option<impl FnOnce() -> io::Result<BodyWriter> + Send + 'static>,
    part: Vec<u8>,
) -> Result<BodyWriter, IntakeError> {
    let write = move || {
        let mut writer = match (writing, make) {
            (Some(writer), _) => writer,
            (None, Some(make)) => make()?,
            (None, None) => BodyWriter::in_memory(),
        };
        writer.write_all(&part)?;
        Ok(writer)
    };
    spawn_blocking(write)
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(IntakeError::Kept)
}

/// A value that is sent part by part.
pub(crate) struct Sending {
    body: Body,
    offset: u64,
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

impl Sending {
    pub(crate) fn of(body: Body) -> Self {
        Self {
            body,
            offset: 0,
            reading: None,
        }
    }
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.offset >= self.body.len() {
            return Poll::Ready(None);
        }
        let (body, offset) = (self.body.clone(), self.offset);
        let reading = self
            .reading
            .get_or_insert_with(|| spawn_blocking(move || body.chunk(offset, CHUNK)));
        let read = match Pin::new(reading).poll(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(read) => read,
        };
        self.reading = None;
        match read.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(chunk) => {
                self.offset += chunk.len() as u64;
                Poll::Ready(Some(Ok(Frame::data(Bytes::from(chunk)))))
            }
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.offset >= self.body.len()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.body.len() - self.offset)
    }
}
