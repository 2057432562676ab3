//! Writes an object, which is there when all of it is, or not at all.

use crate::error::{Error, Kind};
use crate::location::Location;
use crate::runtime::{Stop, finish, start, wait};
use bytes::Bytes;
use object_store::path::Path as Key;
use object_store::{
    MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload,
};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Bytes of a part. Stores take up to ten thousand parts.
const PART: usize = 16 << 20;
const MOST_PARTS: usize = 10_000;
/// Parts under way: this many, and the one that is filled, are in memory.
const AHEAD: usize = 2;

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
                let begun = async move { store.put_multipart_opts(&key, options).await.map_err(Error::from) };
                let upload = wait(begun, &self.stop)?;
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
        wait(async move { parts.upload.complete().await.map(drop).map_err(Error::from) }, &self.stop)
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
        // Parts that stay behind cost money: they are taken back even after a request to stop.
        let _ = wait(
            async move { parts.upload.abort().await.map_err(Error::from) },
            &(Arc::new(|| false) as Stop),
        );
    }
}
