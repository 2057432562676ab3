//! Reads an object from its beginning to its end, ahead of whoever uses it.

use crate::error::{Error, Kind};
use crate::object::Object;
use crate::runtime::{Stop, finish, runtime, start};
use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use object_store::GetOptions;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Bytes of a request, and how many requests are under way: this much memory a reader takes.
const WINDOW: u64 = 4 << 20;
const AHEAD: usize = 2;
/// Pieces of an object that wait, where it comes in one request.
const PIECES: usize = 64;

/// An object from its beginning to its end.
pub struct Reader {
    object: Object,
    now: Bytes,
    way: Way,
}

enum Way {
    /// Window after window.
    Windows { next: u64, waiting: VecDeque<JoinHandle<Result<Bytes, Error>>> },
    /// From a server that has no ranges: what was lost cannot be asked for again.
    Whole { pieces: mpsc::Receiver<Result<Bytes, Error>>, left: u64 },
}

impl Reader {
    /// Reads an object.
    pub fn new(object: Object) -> Self {
        Reader { object, now: Bytes::new(), way: Way::Windows { next: 0, waiting: VecDeque::new() } }
    }

    fn more(&mut self) -> Result<(), Error> {
        let stop = Arc::clone(&self.object.stop);
        match &mut self.way {
            Way::Windows { next, waiting } => {
                while waiting.len() < AHEAD && *next < self.object.size() {
                    let (inner, range) = (Arc::clone(&self.object.inner), *next..*next + WINDOW);
                    waiting.push_back(start(async move { inner.range(range).await })?);
                    *next += WINDOW;
                }
                let Some(task) = waiting.pop_front() else { return Ok(()) };
                match finish(task, &stop) {
                    Err(error) if error.kind == Kind::Unsupported => {
                        waiting.drain(..).for_each(|task| task.abort());
                        self.way = whole(&self.object)?;
                        self.more()
                    }
                    read => read.map(|bytes| self.now = bytes),
                }
            }
            Way::Whole { pieces, left } => {
                let Some(piece) = received(pieces, &stop)? else {
                    let cut =
                        "the connection was lost, and this server cannot go on from the middle: try again";
                    return if *left == 0 { Ok(()) } else { Err(Error::failed(cut)) };
                };
                self.now = piece?;
                *left = left.saturating_sub(self.now.len() as u64);
                Ok(())
            }
        }
    }
}

/// One request for all of it.
fn whole(object: &Object) -> Result<Way, Error> {
    let (give, pieces) = mpsc::channel(PIECES);
    let inner = Arc::clone(&object.inner);
    start(async move {
        let mut stream = match inner.get(GetOptions::new()).await {
            Ok(got) => got.into_stream(),
            Err(error) => {
                let _ = give.send(Err(error)).await;
                return Ok(());
            }
        };
        while let Some(piece) = stream.next().await {
            // Who has stopped reading needs no more.
            if give.send(piece.map_err(Error::from)).await.is_err() {
                break;
            }
        }
        Ok(())
    })?;
    Ok(Way::Whole { pieces, left: object.size() })
}

fn received<T>(pieces: &mut mpsc::Receiver<T>, stop: &Stop) -> Result<Option<T>, Error> {
    loop {
        if stop() {
            return Err(Error::stopped());
        }
        let look = Duration::from_millis(50);
        let got = runtime()?.block_on(async { tokio::time::timeout(look, pieces.recv()).await });
        if let Ok(piece) = got {
            return Ok(piece);
        }
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.now.is_empty() {
            self.more().map_err(io::Error::other)?;
        }
        let count = buffer.len().min(self.now.len());
        self.now.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Way::Windows { waiting, .. } = &self.way {
            waiting.iter().for_each(JoinHandle::abort);
        }
    }
}
