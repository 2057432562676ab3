//! Writes an object, which is there when all of it is, or not at all.

use crate::error::{Error, Kind};
use crate::location::Location;
use crate::runtime::{Stop, finish, start, stopped, wait};
use bytes::Bytes;
use futures_util::future::{Either, select};
use object_store::path::Path as Key;
use object_store::{
    MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload,
};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Bytes of a part. Stores take up to ten thousand parts.
const PART: usize = 16 << 20;
const MOST_PARTS: usize = 10_000;
/// Parts under way: this many, and the one that is filled, are in memory.
const AHEAD: usize = 2;
/// How long it may take to take parts back; after a request to stop, nobody waits longer than the second.
const TAKE_BACK: Duration = Duration::from_secs(10);
const TAKE_BACK_AT_ONCE: Duration = Duration::from_millis(800);

/// An object that is being written. Dropped before [`Upload::finish`], nothing is left of it.
pub struct Upload {
    store: Arc<dyn ObjectStore>,
    key: Key,
    force: bool,
    stop: Stop,
    filled: Vec<u8>,
    parts: Option<Parts>,
}

struct Parts {
    upload: Box<dyn MultipartUpload>,
    under_way: VecDeque<JoinHandle<Result<(), Error>>>,
    count: usize,
}

impl Upload {
    /// Begins an object; one that is there is replaced with `force` only, when the new one is complete.
    ///
    /// # Errors
    ///
    /// Where there is one already, or the store cannot be written to.
    pub fn create(url: &Path, force: bool, stop: &Stop) -> Result<Self, Error> {
        let location = Location::of(url)?;
        if location.web {
            return Err(Error::new(
                Kind::Unsupported,
                "a web address cannot be written to: use s3://, gs:// or az://",
            ));
        }
        if location.key.as_ref().is_empty() {
            return Err(Error::failed("the address names a bucket and no object in it"));
        }
        let (store, key) = (location.store, location.key);
        let upload = Upload { store, key, force, stop: Arc::clone(stop), filled: Vec::new(), parts: None };
        upload.check()?;
        Ok(upload)
    }

    /// Whether the object may be written.
    fn check(&self) -> Result<(), Error> {
        if self.force {
            return Ok(());
        }
        let (store, key) = (Arc::clone(&self.store), self.key.clone());
        let there = wait(async move { store.head(&key).await.map_err(Error::from) }, &self.stop);
        match there {
            Ok(_) => Err(Error::new(Kind::Exists, "the object exists already")),
            Err(error) if error.kind == Kind::Absent => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn send_part(&mut self) -> Result<(), Error> {
        let bytes = Bytes::from(std::mem::take(&mut self.filled));
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => {
                let (store, key) = (Arc::clone(&self.store), self.key.clone());
                let options = PutMultipartOptions::default();
                let stop = Arc::clone(&self.stop);
                let begun = async move {
                    let begun = pin!(store.put_multipart_opts(&key, options));
                    match select(begun, pin!(stopped(stop))).await {
                        Either::Left((begun, _)) => begun.map_err(Error::from),
                        // What is begun can be taken back only by the number that the store gives it.
                        Either::Right(((), begun)) => {
                            let begun = tokio::time::timeout(TAKE_BACK_AT_ONCE, begun).await;
                            begun.map_or_else(|_| Err(Error::stopped()), |begun| begun.map_err(Error::from))
                        }
                    }
                };
                let upload = wait(begun, &(Arc::new(|| false) as Stop))?;
                none.insert(Parts { upload, under_way: VecDeque::new(), count: 0 })
            }
        };
        if parts.count == MOST_PARTS {
            return Err(Error::failed("the object would be larger than 160 GB: write it in parts"));
        }
        parts.count += 1;
        let sent = parts.upload.put_part(PutPayload::from(bytes));
        parts.under_way.push_back(start(async move { sent.await.map_err(Error::from) })?);
        while parts.under_way.len() > AHEAD {
            if let Some(task) = parts.under_way.pop_front() {
                finish(task, &self.stop)?;
            }
        }
        Ok(())
    }

    /// Completes the object.
    ///
    /// # Errors
    ///
    /// Where the store does not take it, or an object has appeared in its place.
    pub fn finish(mut self) -> Result<(), Error> {
        if self.parts.is_none() {
            return self.put();
        }
        if !self.filled.is_empty() {
            self.send_part()?;
        }
        self.check()?;
        let Some(mut parts) = self.parts.take() else { return Ok(()) };
        for task in std::mem::take(&mut parts.under_way) {
            if let Err(error) = finish(task, &self.stop) {
                self.parts = Some(parts);
                return Err(error);
            }
        }
        let stop = Arc::clone(&self.stop);
        let completed = async move {
            let completed = {
                let complete = pin!(parts.upload.complete());
                match select(complete, pin!(stopped(Arc::clone(&stop)))).await {
                    Either::Left((done, _)) => done.map(drop).map_err(Error::from),
                    Either::Right(_) => Err(Error::stopped()),
                }
            };
            if completed.is_err() {
                take_back(&mut *parts.upload, &stop).await;
            }
            completed
        };
        wait(completed, &(Arc::new(|| false) as Stop))
    }

    /// A small object goes in one piece, and only where none has appeared meanwhile.
    fn put(&mut self) -> Result<(), Error> {
        let (store, key) = (Arc::clone(&self.store), self.key.clone());
        let bytes = Bytes::from(std::mem::take(&mut self.filled));
        let mode = if self.force { PutMode::Overwrite } else { PutMode::Create };
        let put = async move {
            let payload = PutPayload::from(bytes);
            let first = store.put_opts(&key, payload.clone(), PutOptions::from(mode)).await;
            match first.map_err(Error::from) {
                // Not every store can put under a condition.
                Err(error) if error.kind == Kind::Unsupported => {
                    store.put(&key, payload).await.map(drop).map_err(Error::from)
                }
                other => other.map(drop),
            }
        };
        wait(put, &self.stop)
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(PART - self.filled.len());
        self.filled.extend_from_slice(&bytes[..count]);
        if self.filled.len() == PART {
            self.send_part().map_err(io::Error::other)?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(mut parts) = self.parts.take() else { return };
        parts.under_way.iter().for_each(JoinHandle::abort);
        let stop = Arc::clone(&self.stop);
        let taken = async move {
            take_back(&mut *parts.upload, &stop).await;
            Ok(())
        };
        let _ = wait(taken, &(Arc::new(|| false) as Stop));
    }
}

/// Parts that stay behind cost money: they are taken back even after a request to stop, as far as the store answers.
async fn take_back(upload: &mut dyn MultipartUpload, stop: &Stop) {
    let most = if stop() { TAKE_BACK_AT_ONCE } else { TAKE_BACK };
    let _ = tokio::time::timeout(most, upload.abort()).await;
}
