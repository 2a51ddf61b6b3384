//! Existing interfaces: packets of a physical, veth, VLAN or TAP interface, and its state.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::interface::{ip, ip_output};
use crate::setup::SetupError;

/// Folder of what an emulation has to put back.
const FOLDER: &str = "/run/bentpipe";

/// Interface in use by the emulation. Its state returns with the value.
#[derive(Debug)]
pub struct Attached {
    name: String,
    /// Commands of `ip` that put it back, the last one first.
    undo: Vec<Vec<String>>,
    journal: PathBuf,
}

impl Attached {
    /// Attaches an interface of this network namespace. One that is down comes up, and the VLAN of `PARENT.NUMBER` is made if it is not there.
    ///
    /// # Errors
    /// Returns an error if the interface is missing, a loopback or in use by another emulation, or the system refuses a change.
    pub fn take(name: &str) -> Result<Attached, SetupError> {
        let (process, namespace) = (std::process::id(), namespace()?);
        let journal = Path::new(FOLDER).join(format!("{process}.{namespace}.undo-{}", file_name(name)));
        if let Some(other) = user_of(namespace, name) {
            let why = format!("another emulation has it, process {other}");
            return Err(SetupError::Unfit(name.to_owned(), why));
        }
        let mut attached = Attached { name: name.to_owned(), undo: Vec::new(), journal };
        if !exists(name) {
            let vlan = name.rsplit_once('.').and_then(|(parent, id)| Some((parent, id.parse::<u16>().ok()?)));
            let known = vlan.filter(|(parent, id)| exists(parent) && (1..4095).contains(id));
            let (parent, id) = known.ok_or_else(|| missing(name))?;
            attached.will_undo(&["link", "delete", "dev", name])?;
            ip(&["link", "add", "link", parent, "name", name, "type", "vlan", "id", &id.to_string()])?;
            // A VLAN sends nothing while its parent is down.
            attached.bring_up(parent)?;
        }
        if flags(&described(name)?).any(|flag| flag == "LOOPBACK") {
            let why = "no packets come from outside of this machine there".to_owned();
            return Err(SetupError::Unfit(name.to_owned(), why));
        }
        attached.bring_up(name)?;
        // It shows others that the interface is in use.
        attached.write_journal()?;
        Ok(attached)
    }

    /// Returns the interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the interface's MTU.
    ///
    /// # Errors
    /// Returns an error if the interface is gone.
    pub fn mtu_bytes(&self) -> Result<u32, SetupError> {
        let text = described(&self.name)?;
        let mtu = text.split_once(" mtu ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        mtu.ok_or_else(|| missing(&self.name))
    }

    /// Returns the addresses that this machine has at the interface.
    ///
    /// Those of the link alone are left out.
    pub fn addresses(&self) -> Vec<String> {
        let text = ip_output(&["-o", "address", "show", "dev", &self.name]).unwrap_or_default();
        let of_line = |line: &str| {
            let mut words = line.split_whitespace().skip_while(|word| !["inet", "inet6"].contains(word));
            let address = words.nth(1)?.to_owned();
            (!line.contains("scope link")).then_some(address)
        };
        text.lines().filter_map(of_line).collect()
    }

    fn bring_up(&mut self, name: &str) -> Result<(), SetupError> {
        let text = described(name)?;
        if flags(&text).any(|flag| flag == "UP") {
            return Ok(());
        }
        self.will_undo(&["link", "set", "dev", name, "down"])?;
        ip(&["link", "set", "dev", name, "up"])
    }

    /// Records how to undo a change before it is made, also for a crash.
    fn will_undo(&mut self, words: &[&str]) -> Result<(), SetupError> {
        self.undo.insert(0, words.iter().map(|&word| word.to_owned()).collect());
        self.write_journal()
    }

    fn write_journal(&self) -> Result<(), SetupError> {
        let lines: Vec<String> = self.undo.iter().map(|words| words.join(" ")).collect();
        let written =
            fs::create_dir_all(FOLDER).and_then(|()| fs::write(&self.journal, lines.join("\n") + "\n"));
        written.map_err(|error| SetupError::Command {
            command: format!("write {}", self.journal.display()),
            why: error.to_string(),
        })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        put_back(&self.journal, &self.undo);
    }
}

/// Undoes what emulations left whose process is gone, and returns the names of the interfaces.
///
/// What was left in another network namespace is for a start there: here the interfaces of its names are others.
pub(crate) fn put_back_after_crash() -> Vec<String> {
    let Ok(own) = namespace() else { return Vec::new() };
    let is_gone = |process: u32| !Path::new(&format!("/proc/{process}")).exists();
    put_back_if(|process, namespace| namespace == own && is_gone(process))
}

/// Undoes the changes of a process.
pub(crate) fn put_back_of(process: u32) {
    put_back_if(|owner, _| owner == process);
}

fn put_back_if(is_meant: impl Fn(u32, u64) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(FOLDER).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((owner, interface)) = name.split_once(".undo-") else { continue };
        let numbers = owner.split_once('.').map(|(process, namespace)| (process.parse(), namespace.parse()));
        if let Some((Ok(process), Ok(namespace))) = numbers
            && is_meant(process, namespace)
        {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let undo: Vec<Vec<String>> =
                text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect();
            put_back(&entry.path(), &undo);
            if !undo.is_empty() {
                names.push(interface.to_owned());
            }
        }
    }
    names
}

/// Returns the other process that has attached an interface of a network namespace.
fn user_of(namespace: u64, name: &str) -> Option<u32> {
    let end = format!(".{namespace}.undo-{}", file_name(name));
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut users = names.filter_map(|found| found.strip_suffix(&end)?.parse::<u32>().ok());
    users.find(|user| *user != std::process::id() && Path::new(&format!("/proc/{user}")).exists())
}

/// Returns the flags in a line of `ip link`.
fn flags(line: &str) -> impl Iterator<Item = &str> {
    let flags = line.split_once('<').and_then(|(_, rest)| Some(rest.split_once('>')?.0));
    flags.into_iter().flat_map(|flags| flags.split(','))
}

fn put_back(journal: &Path, undo: &[Vec<String>]) {
    for words in undo {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // What is gone needs no undoing.
        let _ = ip(&words);
    }
    let _ = fs::remove_file(journal);
}

/// Returns the name of a journal's interface: a name of Linux has no slash.
fn file_name(name: &str) -> String {
    name.replace('/', "-")
}

/// Returns the line of `ip link` about an interface. Files below `/sys` may be those of another namespace.
fn described(name: &str) -> Result<String, SetupError> {
    ip_output(&["-o", "link", "show", "dev", name])
}

/// Returns `true` if the calling thread's network namespace has the interface.
fn exists(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && index(name).is_ok()
}

fn missing(name: &str) -> SetupError {
    SetupError::NoInterface(name.to_owned())
}

/// Returns the number of an interface.
fn index(name: &str) -> io::Result<i32> {
    let text = std::ffi::CString::new(name)?;
    // SAFETY: the pointer is that of a string with its terminator, which lives for the call.
    let index = unsafe { libc::if_nametoindex(text.as_ptr()) };
    if index == 0 { Err(io::Error::last_os_error()) } else { Ok(index as i32) }
}

/// Opens a packet socket at an interface of the calling thread's network namespace. It reads and writes frames behind an offload
/// header, as a TAP device does: those that come from outside, to any destination, without those of VLANs.
pub(crate) fn open(name: &str) -> io::Result<File> {
    let flags = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: `socket` takes no pointers. Without a protocol nothing is received before it is bound.
    let fd = unsafe { libc::socket(libc::AF_PACKET, flags, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let index = index(name)?;
    set(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, &1_i32)?;
    set(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER)?;
    filter(&socket)?;
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
    // SAFETY: `sockaddr_ll` is plain data for which all bytes zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives on this stack for the call, and its length is its type's.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from(socket)) }
}

/// Returns the number of the calling thread's network namespace.
///
/// No other has it until the machine starts again; before Linux 5.14 until the namespace is gone.
fn namespace() -> Result<u64, SetupError> {
    let failed = |error: io::Error| SetupError::Command {
        command: "number of the network namespace".to_owned(),
        why: error.to_string(),
    };
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0)).map_err(failed)?;
    let (mut cookie, mut len) = (0_u64, size_of::<u64>() as libc::socklen_t);
    // SAFETY: value and length live on this stack for the call, and the length is the value's.
    let result = unsafe {
        let value = (&raw mut cookie).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, value, &raw mut len)
    };
    match result {
        0.. => Ok(cookie),
        _ => fs::metadata("/proc/thread-self/ns/net").map(|file| file.ino()).map_err(failed),
    }
}

/// Number of a socket's network namespace, since Linux 5.14 (asm-generic/socket.h).
const SO_NETNS_COOKIE: i32 = 71;
/// Offload headers in front of frames (linux/if_packet.h).
const PACKET_VNET_HDR: i32 = 15;
/// No frames that this machine sends (linux/if_packet.h).
const PACKET_IGNORE_OUTGOING: i32 = 23;
/// Receive buffer in bytes. The kernel limits it (`rmem_max`) and doubles it.
const RECEIVE_BUFFER: i32 = 8 << 20;

fn set<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is plain data that lives for the call, and its length is its type's.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Drops frames of VLANs. The kernel takes their tags off, and their interfaces get them as well.
fn filter(socket: &OwnedFd) -> io::Result<()> {
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    /// Ancillary data of the packet: its VLAN tag is present (linux/filter.h).
    const VLAN_TAG_PRESENT: u32 = (-0x1000_i32 + 48) as u32;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        step(LOAD_BYTE, 0, 0, VLAN_TAG_PRESENT),
        step(JUMP_IF_EQUAL, 1, 0, 0),
        step(RETURN, 0, 0, 0),
        step(RETURN, 0, 0, u32::MAX),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}
