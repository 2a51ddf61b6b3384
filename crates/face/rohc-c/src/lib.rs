//! C interface of [`bentpipe_rohc`]. What each function does is in `include/bentpipe_rohc.h`; the structures here are those there.
//!
//! Objects are boxed and passed as opaque pointers. Every function takes NULL and impossible values as errors. A panic in here would be a
//! bug: it ends the program instead of passing through C.

use std::ffi::{CStr, CString, c_char};
use std::time::Duration;

use bentpipe_rohc::{
    Channel, CidSpace, Compatibility, CompressError, Compressor, CompressorConfig, DecompressError,
    Decompressor, DecompressorConfig, Mode, PacketType, Profile, Profiles, Refresh, ReorderRatio, RtpRule,
};

/// Result of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// Done, without an IP packet or feedback.
    NoPacket = 1,
    /// The output buffer is too small.
    TooSmall = 2,
    /// No context.
    NoContext = 3,
    /// CRC or checksum mismatch.
    BadCrc = 4,
    /// Waiting for a refresh or a confirmation.
    Waiting = 5,
    /// Malformed packet.
    Malformed = 6,
    /// Invalid argument.
    Invalid = 7,
}

/// Channel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CChannel {
    large_cids: bool,
    max_cid: u16,
    version_2: bool,
    mrru: u32,
}

/// Configuration of a compressor.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CompConfig {
    channel: CChannel,
    rtp: i32,
    rtp_ports: *const u16,
    rtp_ports_count: usize,
    repeats: u8,
    ir_packets: u32,
    fo_packets: u32,
    ir_interval_ns: u64,
    fo_interval_ns: u64,
    confirm: u8,
    reorder_ratio: u8,
    for_librohc: bool,
}

/// Configuration of a decompressor.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DecompConfig {
    channel: CChannel,
    mode: i32,
    verify: bool,
    caution: u8,
    peer_confirms: bool,
}

/// About the last packet.
#[derive(Debug)]
#[repr(C)]
pub struct Info {
    cid: u16,
    profile: u16,
    kind: *const c_char,
    header_in: usize,
    header_out: usize,
}

/// Counts of a compressor.
#[derive(Debug)]
#[repr(C)]
pub struct CompStats {
    packets: u64,
    bytes_in: u64,
    bytes_out: u64,
    header_in: u64,
    header_out: u64,
    irs: u64,
}

/// Counts of a decompressor.
#[derive(Debug)]
#[repr(C)]
pub struct DecompStats {
    received: u64,
    delivered: u64,
    refused: u64,
    crc_failures: u64,
    checksum_failures: u64,
}

/// Compressor.
#[derive(Debug)]
pub struct Comp {
    inner: Compressor,
    last: Option<Last>,
}

/// Decompressor.
#[derive(Debug)]
pub struct Decomp {
    inner: Decompressor,
    last: Option<Last>,
    /// Feedback that was made, and that arrived, until it is taken.
    own: Vec<u8>,
    received: Vec<u8>,
}

/// Last packet of an object.
#[derive(Debug)]
struct Last {
    cid: u16,
    profile: Profile,
    kind: CString,
    header_in: usize,
    header_out: usize,
}

impl Last {
    fn new(cid: u16, profile: Profile, kind: PacketType, (header_in, header_out): (usize, usize)) -> Last {
        Last { cid, profile, kind: CString::new(kind.name()).unwrap_or_default(), header_in, header_out }
    }

    fn info(&self) -> Info {
        let Last { cid, profile, kind, header_in, header_out } = self;
        Info {
            cid: *cid,
            profile: *profile as u16,
            kind: kind.as_ptr(),
            header_in: *header_in,
            header_out: *header_out,
        }
    }
}

impl CChannel {
    fn of(channel: Channel) -> CChannel {
        CChannel {
            large_cids: matches!(channel.cids, CidSpace::Large { .. }),
            max_cid: channel.cids.max_cid(),
            version_2: channel.profiles == Profiles::V2,
            mrru: channel.mrru_bytes,
        }
    }

    fn channel(self) -> Option<Channel> {
        let cids = match (self.large_cids, self.max_cid) {
            (false, max_cid @ 0..=15) => CidSpace::Small { max_cid: max_cid as u8 },
            (true, max_cid @ 0..=16_383) => CidSpace::Large { max_cid },
            _ => return None,
        };
        let profiles = if self.version_2 { Profiles::V2 } else { Profiles::V1 };
        Some(Channel { cids, profiles, mrru_bytes: self.mrru })
    }
}

impl From<CompressError> for Status {
    fn from(error: CompressError) -> Status {
        match error {
            CompressError::BufferTooSmall(_) => Status::TooSmall,
            _ => Status::Invalid,
        }
    }
}

impl From<DecompressError> for Status {
    fn from(error: DecompressError) -> Status {
        match error {
            DecompressError::BufferTooSmall(_) => Status::TooSmall,
            DecompressError::NoContext(_) => Status::NoContext,
            DecompressError::CrcMismatch
            | DecompressError::ChecksumMismatch
            | DecompressError::Reassembly => Status::BadCrc,
            DecompressError::NotAllowedInState | DecompressError::RepairPending => Status::Waiting,
            _ => Status::Malformed,
        }
    }
}

/// Returns the octets at a pointer: an empty slice for NULL.
///
/// # Safety
/// `at` is NULL or points to `len` octets that do not change meanwhile.
unsafe fn octets<'a>(at: *const u8, len: usize) -> &'a [u8] {
    if at.is_null() || len == 0 || len > isize::MAX as usize {
        return &[];
    }
    // SAFETY: not NULL, and the caller vouches for the octets.
    unsafe { std::slice::from_raw_parts(at, len) }
}

/// Returns the buffer at a pointer; an empty one for NULL.
///
/// # Safety
/// `at` is NULL or points to `len` octets that are not used otherwise meanwhile.
unsafe fn buffer<'a>(at: *mut u8, len: usize) -> &'a mut [u8] {
    if at.is_null() || len == 0 || len > isize::MAX as usize {
        return &mut [];
    }
    // SAFETY: not NULL, and the caller vouches for the octets. What another language hands over counts as initialised, and it is written
    // here, never read before.
    unsafe { std::slice::from_raw_parts_mut(at, len) }
}

/// Writes a value where a pointer says; NULL is ignored.
///
/// # Safety
/// `at` is NULL or points to room for a value.
unsafe fn put<T>(at: *mut T, value: T) {
    if !at.is_null() {
        // SAFETY: not NULL, and the caller vouches for the room.
        unsafe { at.write(value) }
    }
}

/// Version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn bentpipe_rohc_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// Words for a status.
#[unsafe(no_mangle)]
pub extern "C" fn bentpipe_rohc_status_text(status: i32) -> *const c_char {
    let text = match status {
        0 => c"done",
        1 => c"done, without a packet",
        2 => c"the output buffer is too small",
        3 => c"the context is unknown",
        4 => c"CRC or checksum mismatch",
        5 => c"waiting for a refresh or a confirmation",
        6 => c"malformed, or not of this channel",
        7 => c"invalid argument",
        _ => c"unknown status",
    };
    text.as_ptr()
}

/// Sets the default configuration of a compressor.
///
/// # Safety
/// `config` is NULL or points to a configuration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_comp_defaults(config: *mut CompConfig) {
    let of = CompressorConfig::default();
    let ns = |interval: Duration| u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    let value = CompConfig {
        channel: CChannel::of(of.channel),
        rtp: 0,
        rtp_ports: std::ptr::null(),
        rtp_ports_count: 0,
        repeats: of.repeats,
        ir_packets: of.ir_refresh.packets,
        fo_packets: of.fo_refresh.packets,
        ir_interval_ns: ns(of.ir_refresh.interval),
        fo_interval_ns: ns(of.fo_refresh.interval),
        confirm: of.confirm,
        reorder_ratio: of.reorder as u8,
        for_librohc: false,
    };
    // SAFETY: as this function asks for.
    unsafe { put(config, value) }
}

/// Sets the default configuration of a decompressor.
///
/// # Safety
/// `config` is NULL or points to a configuration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_decomp_defaults(config: *mut DecompConfig) {
    let DecompressorConfig { channel, mode, verify, caution, peer_confirms, .. } =
        DecompressorConfig::default();
    let channel = CChannel::of(channel);
    // SAFETY: as this function asks for.
    unsafe { put(config, DecompConfig { channel, mode: mode as i32, verify, caution, peer_confirms }) }
}

/// Returns the configuration that C's stands for; `None` if a value is impossible.
///
/// # Safety
/// `rtp_ports` is NULL or points to `rtp_ports_count` ports.
unsafe fn comp_config(config: &CompConfig) -> Option<CompressorConfig> {
    let rtp = match config.rtp {
        0 => RtpRule::Likely,
        1 => RtpRule::Never,
        2 if config.rtp_ports.is_null() || config.rtp_ports_count > 1 << 16 => return None,
        // SAFETY: not NULL, and the caller vouches for the ports.
        2 => RtpRule::Ports(unsafe {
            std::slice::from_raw_parts(config.rtp_ports, config.rtp_ports_count).to_vec()
        }),
        _ => return None,
    };
    let reorder = match config.reorder_ratio {
        0 => ReorderRatio::None,
        1 => ReorderRatio::Quarter,
        2 => ReorderRatio::Half,
        3 => ReorderRatio::ThreeQuarters,
        _ => return None,
    };
    if !(1..=16).contains(&config.repeats) || config.confirm > 32 {
        return None;
    }
    let refresh = |packets, ns| Refresh { packets, interval: Duration::from_nanos(ns) };
    let compatibility = if config.for_librohc { Compatibility::Librohc } else { Compatibility::Standard };
    Some(CompressorConfig {
        channel: config.channel.channel()?,
        rtp,
        repeats: config.repeats,
        ir_refresh: refresh(config.ir_packets, config.ir_interval_ns),
        fo_refresh: refresh(config.fo_packets, config.fo_interval_ns),
        confirm: config.confirm,
        reorder,
        compatibility,
        ..CompressorConfig::default()
    })
}

/// Creates a compressor.
///
/// # Safety
/// `config` is NULL or points to a configuration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_comp_new(config: *const CompConfig) -> *mut Comp {
    // SAFETY: as this function asks for, and so for the ports in it.
    let config = unsafe { config.as_ref().and_then(|config| comp_config(config)) };
    config.map_or(std::ptr::null_mut(), |config| {
        Box::into_raw(Box::new(Comp { inner: Compressor::new(config), last: None }))
    })
}

/// Frees a compressor.
///
/// # Safety
/// `comp` is NULL or of [`bentpipe_rohc_comp_new`], and is not used after.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_comp_free(comp: *mut Comp) {
    if !comp.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and is freed once.
        drop(unsafe { Box::from_raw(comp) });
    }
}

/// Compresses a packet.
///
/// # Safety
/// `comp` is NULL or a compressor; the pointers are NULL or have the octets that their lengths say, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_compress(
    comp: *mut Comp,
    now_ns: u64,
    ip: *const u8,
    ip_len: usize,
    out: *mut u8,
    out_max: usize,
    out_len: *mut usize,
) -> Status {
    // SAFETY: as this function asks for.
    let (comp, ip, out) = unsafe { (comp.as_mut(), octets(ip, ip_len), buffer(out, out_max)) };
    let Some(Comp { inner, last }) = comp else { return Status::Invalid };
    let (status, len) = match inner.compress_into(Duration::from_nanos(now_ns), ip, out) {
        Ok((len, about)) => {
            let headers = (about.header_in, about.header_out);
            *last = Some(Last::new(about.cid, about.profile, about.packet_type, headers));
            (Status::Ok, len)
        }
        Err(CompressError::BufferTooSmall(needed)) => (Status::TooSmall, needed),
        Err(error) => (error.into(), 0),
    };
    // SAFETY: as this function asks for.
    unsafe { put(out_len, len) };
    status
}

/// Processes feedback elements.
///
/// # Safety
/// `comp` is NULL or a compressor; `elements` is NULL or has `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_comp_feedback(comp: *mut Comp, elements: *const u8, len: usize) {
    // SAFETY: as this function asks for.
    let (comp, elements) = unsafe { (comp.as_mut(), octets(elements, len)) };
    if let Some(comp) = comp {
        comp.inner.feedback(elements);
    }
}

/// Queues feedback elements.
///
/// # Safety
/// `comp` is NULL or a compressor; `elements` is NULL or has `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_comp_piggyback(comp: *mut Comp, elements: *const u8, len: usize) {
    // SAFETY: as this function asks for.
    let (comp, elements) = unsafe { (comp.as_mut(), octets(elements, len)) };
    if let Some(comp) = comp {
        comp.inner.piggyback(elements);
    }
}

/// Starts every context again.
///
/// # Safety
/// `comp` is NULL or a compressor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_comp_reinitialize(comp: *mut Comp) {
    // SAFETY: as this function asks for.
    if let Some(comp) = unsafe { comp.as_mut() } {
        comp.inner.reinitialize();
    }
}

/// Writes what is known of the last packet.
///
/// # Safety
/// `comp` is NULL or a compressor; `info` is NULL or has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_comp_last(comp: *const Comp, info: *mut Info) -> Status {
    // SAFETY: as this function asks for.
    unsafe { last(comp.as_ref().and_then(|comp| comp.last.as_ref()), info) }
}

/// Writes what is known of a last packet.
///
/// # Safety
/// `info` is NULL or has room.
unsafe fn last(last: Option<&Last>, info: *mut Info) -> Status {
    let Some(last) = last else { return Status::Invalid };
    // SAFETY: as this function asks for.
    unsafe { put(info, last.info()) };
    Status::Ok
}

/// Counts of a compressor.
///
/// # Safety
/// `comp` is NULL or a compressor; `stats` is NULL or has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_comp_get_stats(comp: *const Comp, stats: *mut CompStats) {
    // SAFETY: as this function asks for.
    let of = unsafe { comp.as_ref() }.map(|comp| comp.inner.stats()).unwrap_or_default();
    let value = CompStats {
        packets: of.packets,
        bytes_in: of.bytes_in,
        bytes_out: of.bytes_out,
        header_in: of.header_in,
        header_out: of.header_out,
        irs: of.irs,
    };
    // SAFETY: as this function asks for.
    unsafe { put(stats, value) }
}

/// Creates a decompressor.
///
/// # Safety
/// `config` is NULL or points to a configuration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_decomp_new(config: *const DecompConfig) -> *mut Decomp {
    // SAFETY: as this function asks for.
    let config = unsafe { config.as_ref() }.and_then(|config| {
        Some(DecompressorConfig {
            channel: config.channel.channel()?,
            mode: u8::try_from(config.mode).ok().and_then(Mode::from_bits)?,
            verify: config.verify,
            caution: config.caution,
            peer_confirms: config.peer_confirms,
            ..DecompressorConfig::default()
        })
    });
    config.map_or(std::ptr::null_mut(), |config| {
        let inner = Decompressor::new(config);
        Box::into_raw(Box::new(Decomp { inner, last: None, own: Vec::new(), received: Vec::new() }))
    })
}

/// Frees a decompressor.
///
/// # Safety
/// `decomp` is NULL or of [`bentpipe_rohc_decomp_new`], and is not used after.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_decomp_free(decomp: *mut Decomp) {
    if !decomp.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and is freed once.
        drop(unsafe { Box::from_raw(decomp) });
    }
}

/// Decompresses a packet.
///
/// # Safety
/// `decomp` is NULL or a decompressor; the pointers are NULL or have the octets that their lengths say, and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_decompress(
    decomp: *mut Decomp,
    now_ns: u64,
    rohc: *const u8,
    rohc_len: usize,
    out: *mut u8,
    out_max: usize,
    out_len: *mut usize,
) -> Status {
    // SAFETY: as this function asks for.
    let (decomp, rohc, out) = unsafe { (decomp.as_mut(), octets(rohc, rohc_len), buffer(out, out_max)) };
    let Some(Decomp { inner, last, .. }) = decomp else { return Status::Invalid };
    let (status, len) = match inner.decompress_into(Duration::from_nanos(now_ns), rohc, out) {
        Ok(Some((len, about))) => {
            let headers = (about.header_in, about.header_out);
            *last = Some(Last::new(about.cid, about.profile, about.packet_type, headers));
            (Status::Ok, len)
        }
        Ok(None) => (Status::NoPacket, 0),
        Err(DecompressError::BufferTooSmall(needed)) => (Status::TooSmall, needed),
        Err(error) => (error.into(), 0),
    };
    // SAFETY: as this function asks for.
    unsafe { put(out_len, len) };
    status
}

/// Moves waiting octets to the buffer, if it has room.
///
/// # Safety
/// `out` is NULL or has `out_max` octets; `out_len` is NULL or has room.
unsafe fn take(waiting: &mut Vec<u8>, out: *mut u8, out_max: usize, out_len: *mut usize) -> Status {
    // SAFETY: as this function asks for.
    let out = unsafe { buffer(out, out_max) };
    // SAFETY: as this function asks for.
    unsafe { put(out_len, waiting.len()) };
    if waiting.is_empty() {
        return Status::NoPacket;
    }
    let Some(out) = out.get_mut(..waiting.len()) else { return Status::TooSmall };
    out.copy_from_slice(waiting);
    waiting.clear();
    Status::Ok
}

/// Moves the feedback to send to a buffer.
///
/// # Safety
/// `decomp` is NULL or a decompressor; `out` is NULL or has `out_max` octets; `out_len` is NULL or has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_decomp_take_feedback(
    decomp: *mut Decomp,
    out: *mut u8,
    out_max: usize,
    out_len: *mut usize,
) -> Status {
    // SAFETY: as this function asks for.
    let Some(Decomp { inner, own, .. }) = (unsafe { decomp.as_mut() }) else { return Status::Invalid };
    inner.take_feedback(own);
    // SAFETY: as this function asks for.
    unsafe { take(own, out, out_max, out_len) }
}

/// Moves the feedback that arrived to a buffer.
///
/// # Safety
/// `decomp` is NULL or a decompressor; `out` is NULL or has `out_max` octets; `out_len` is NULL or has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_decomp_take_received(
    decomp: *mut Decomp,
    out: *mut u8,
    out_max: usize,
    out_len: *mut usize,
) -> Status {
    // SAFETY: as this function asks for.
    let Some(Decomp { inner, received, .. }) = (unsafe { decomp.as_mut() }) else { return Status::Invalid };
    inner.take_received_feedback(received);
    // SAFETY: as this function asks for.
    unsafe { take(received, out, out_max, out_len) }
}

/// Writes what is known of the last packet.
///
/// # Safety
/// `decomp` is NULL or a decompressor; `info` is NULL or has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_decomp_last(decomp: *const Decomp, info: *mut Info) -> Status {
    // SAFETY: as this function asks for.
    unsafe { last(decomp.as_ref().and_then(|decomp| decomp.last.as_ref()), info) }
}

/// Counts of a decompressor.
///
/// # Safety
/// `decomp` is NULL or a decompressor; `stats` is NULL or has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bentpipe_rohc_decomp_get_stats(decomp: *const Decomp, stats: *mut DecompStats) {
    // SAFETY: as this function asks for.
    let of = unsafe { decomp.as_ref() }.map(|decomp| decomp.inner.stats()).unwrap_or_default();
    let value = DecompStats {
        received: of.received,
        delivered: of.delivered,
        refused: of.refused,
        crc_failures: of.crc_failures,
        checksum_failures: of.checksum_failures,
    };
    // SAFETY: as this function asks for.
    unsafe { put(stats, value) }
}
