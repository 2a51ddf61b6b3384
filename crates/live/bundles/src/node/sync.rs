//! Thread that waits for the disk, so that a node does not.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use rustix::event::{EventfdFlags, eventfd};

/// Number of batches, and the files that have them.
type Order = (u64, Vec<File>);

/// Thread that synchronises files with the disk. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Syncer {
    orders: Sender<Order>,
    reports: Receiver<io::Result<u64>>,
    bell: Arc<OwnedFd>,
    is_busy: bool,
}

impl Syncer {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Syncer> {
        let (orders, ordered) = mpsc::channel::<Order>();
        let (report, reports) = mpsc::channel();
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let ringer = bell.clone();
        std::thread::Builder::new().name("store".to_owned()).spawn(move || {
            while let Ok((batches, files)) = ordered.recv() {
                let result = files.iter().try_for_each(File::sync_data).map(|()| batches);
                if report.send(result).is_err() {
                    return;
                }
                // The counter cannot overflow.
                let _ = rustix::io::write(&ringer, &1_u64.to_ne_bytes());
            }
        })?;
        Ok(Syncer { orders, reports, bell, is_busy: false })
    }

    /// Returns `true` if an order has not been reported.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Orders that files with this number of batches be on disk.
    pub(super) fn order(&mut self, batches: u64, files: Vec<File>) -> io::Result<()> {
        self.is_busy = true;
        self.orders.send((batches, files)).map_err(|_| ended())
    }

    /// Returns the number of batches on disk, if an order is done.
    pub(super) fn poll(&mut self) -> io::Result<Option<u64>> {
        let Ok(report) = self.reports.try_recv() else { return Ok(None) };
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        self.is_busy = false;
        report.map(Some)
    }

    /// Waits until the order is done, and returns the number of batches on disk.
    pub(super) fn finish(&mut self) -> io::Result<u64> {
        let report = self.reports.recv().map_err(|_| ended())?;
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        self.is_busy = false;
        report
    }

    /// Returns what is readable once an order is done.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

fn ended() -> io::Error {
    io::Error::other("the thread of the store has ended")
}
