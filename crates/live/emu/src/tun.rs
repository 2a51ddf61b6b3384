//! A TUN device: an interface of a network namespace whose packets this program carries.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::Port;
use crate::merge::Merger;
use crate::offload::{self, Joiner, Splitter};

/// A TUN device without blocking, with segmentation offload. It goes with the value.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    splitter: Splitter,
    joiner: Joiner,
    /// Joins what the program's own TCP sends, if it does.
    merger: Option<Merger>,
    train: Vec<u8>,
}

/// The longest read: the largest IP packet behind an offload header.
const MAX_READ: usize = 65_535 + offload::HEADER_LEN;

impl Tun {
    /// Creates the device `name` in the network namespace of the calling thread.
    ///
    /// # Errors
    /// If there is no `/dev/net/tun`, no right to use it, or the name is taken or too long.
    pub fn create(name: &str) -> io::Result<Tun> {
        let file = open(name, libc::IFF_TUN | libc::IFF_VNET_HDR)?;
        let joiner = Joiner::with_datagrams(offer_segmentation(&file)?);
        let splitter = Splitter::default();
        Ok(Tun { file, name: name.to_owned(), splitter, joiner, merger: None, train: vec![0; MAX_READ] })
    }

    /// Joins the segments of several connections, and leaves out acknowledgements that the next one covers. Trains of TCP
    /// arrive as one segment.
    ///
    /// For a program whose own TCP sends and takes them; packets of an emulated network leave as they are. A train that
    /// leaves again as it came is a train of the same segments, if it does so before the next [`Port::flush`].
    pub fn merge_connections(&mut self) {
        self.merger = Some(Merger::default());
        self.splitter.keep_trains();
        keep_freed_memory();
    }

    /// Writes each UDP datagram by itself, for measurements of what trains of them save.
    pub fn disable_datagram_trains(&mut self) {
        self.joiner = Joiner::default();
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Memory that stays with the process when it is freed.
#[cfg(target_env = "gnu")]
const KEPT: libc::c_int = 64 << 20;

/// Keeps freed memory, up to 64 MB.
///
/// Trains come and go by the megabyte. Their memory would go back to the system each time, and come again page by page.
fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes its arguments by value; any threshold is allowed.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
    }
}

/// Opens a device with flags: `IFF_TUN` or `IFF_TAP`, and perhaps `IFF_VNET_HDR`. The last puts an offload header in
/// front of packets.
pub(crate) fn open(name: &str, flags: libc::c_int) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let request = interface_request(name, flags)?;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which lives on this stack for the call; the descriptor is
    // open for it.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(file) }
}

/// Opens the TAP device `name` in the network namespace of the calling thread. There is no offload: a read or write is
/// one frame.
///
/// # Errors
/// Returns an error if there is no `/dev/net/tun`, no right to use it, or the name is taken or too long.
pub fn open_tap(name: &str) -> io::Result<File> {
    open(name, libc::IFF_TAP)
}

/// Enables trains and incomplete checksums from the kernel.
///
/// Returns `true` if the trains are of UDP too (Linux 6.2).
pub(crate) fn offer_segmentation(file: &File) -> io::Result<bool> {
    let of_tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    if set_offload(file, of_tcp | TUN_F_USO).is_ok() {
        return Ok(true);
    }
    set_offload(file, of_tcp).map(|()| false)
}

/// UDP segmentation offload of IPv4 and IPv6 (`TUN_F_USO4`, `TUN_F_USO6`).
const TUN_F_USO: libc::c_uint = 0x60;

fn set_offload(file: &File, offloads: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, offloads) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn interface_request(name: &str, flags: libc::c_int) -> io::Result<libc::ifreq> {
    // SAFETY: `ifreq` is plain data for which all bytes zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an interface name has 1 to 15 bytes"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (flags | libc::IFF_NO_PI) as libc::c_short;
    Ok(request)
}

impl Port for Tun {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.splitter.is_empty() {
            return Ok(self.splitter.next(buffer));
        }
        match self.file.read(&mut self.train) {
            Ok(len) => Ok(self.splitter.take(&self.train[..len], buffer)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        let file = &mut self.file;
        let mut write = |bytes: &[u8]| file.write(bytes).map(|_| ());
        match &mut self.merger {
            Some(merger) => match self.splitter.segment_len(packet) {
                Some(len) => {
                    merger.flush(&mut write)?;
                    write(&offload::as_train(packet, len))
                }
                None => merger.push(packet, write),
            },
            None => self.joiner.push(packet, write),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.splitter.forget_trains();
        let file = &mut self.file;
        let write = |bytes: &[u8]| file.write(bytes).map(|_| ());
        match &mut self.merger {
            Some(merger) => merger.flush(write),
            None => self.joiner.flush(write),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
