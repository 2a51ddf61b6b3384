//! Ports between the network and the outside.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

/// Port between the network and the outside: a TUN device, a socket, a queue.
pub trait Port: Send {
    /// Receives the next waiting packet into `buffer`, or returns `None`. Never blocks.
    ///
    /// # Errors
    /// When the device says so; the driver counts the error and goes on.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Sends a packet. Never blocks: a packet that the device has no room for is dropped and is an error.
    ///
    /// # Errors
    /// When the device says so; the driver counts the error and goes on.
    fn write(&mut self, packet: &[u8]) -> io::Result<()>;

    /// Sends what [`Port::write`] held back to send it together.
    ///
    /// # Errors
    /// As [`Port::write`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the descriptor to wait on for packets, if there is one.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

/// Packets in memory, for tests and for programs that embed the emulator.
#[derive(Clone, Debug, Default)]
pub struct Queue(Arc<Mutex<Ends>>);

#[derive(Debug, Default)]
struct Ends {
    to_network: VecDeque<Vec<u8>>,
    from_network: VecDeque<Vec<u8>>,
}

impl Queue {
    /// Appends `packet` for the network to read.
    pub fn send(&self, packet: &[u8]) {
        self.ends().to_network.push_back(packet.to_vec());
    }

    /// The next packet that came out of the network.
    pub fn receive(&self) -> Option<Vec<u8>> {
        self.ends().from_network.pop_front()
    }

    fn ends(&self) -> std::sync::MutexGuard<'_, Ends> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Port for Queue {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(packet) = self.ends().to_network.pop_front() else { return Ok(None) };
        let len = packet.len().min(buffer.len());
        buffer[..len].copy_from_slice(&packet[..len]);
        Ok(Some(len))
    }

    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        self.ends().from_network.push_back(packet.to_vec());
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
