//! System calls that a confined process can make (seccomp).

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

/// System calls of a confined process. Others fail with `EPERM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// Only those of a program that carries packets: memory, threads, time, files, sockets of IP.
    OfPackets,
    /// Calls that do not change the system.
    ///
    /// Refused are those of mounts, modules, namespaces, other processes and their memory, and keys.
    OfPrograms,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

impl Calls {
    /// Restricts the calling thread and those that it starts. Returns the number of calls in the list; `None` if there is no
    /// filter for this processor.
    pub(super) fn restrict(self) -> io::Result<Option<usize>> {
        let Ok(processor) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(None) };
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        let (rules, otherwise, listed) = match self {
            Calls::OfPackets => (of_packets().map_err(io::Error::other)?, refused, SeccompAction::Allow),
            Calls::OfPrograms => (of_system(), SeccompAction::Allow, refused),
        };
        let count = rules.len();
        let filter = SeccompFilter::new(rules, otherwise, listed, processor).map_err(io::Error::other)?;
        let program = BpfProgram::try_from(filter).map_err(io::Error::other)?;
        apply_filter(&program).map_err(io::Error::other)?;
        Ok(Some(count))
    }
}

/// Returns the calls of a program that carries packets. Those of the standard library are among them.
fn of_packets() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = PACKETS.iter().chain(OLD_PACKETS).map(|call| (*call, Vec::new())).collect();
    let is = |argument, value: libc::c_int| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value as u64)
            .and_then(|condition| SeccompRule::new(vec![condition]))
    };
    // Packet sockets, netlink and the rest are not for it.
    rules.insert(libc::SYS_socket, vec![is(0, libc::AF_INET)?, is(0, libc::AF_INET6)?]);
    // Signals to itself only: the standard library aborts by one.
    rules.insert(libc::SYS_tgkill, vec![is(0, std::process::id() as libc::c_int)?]);
    Ok(rules)
}

/// Returns the calls that change the system, which no modulator, receiver or `ip` needs.
fn of_system() -> Rules {
    SYSTEM.iter().chain(OLD_SYSTEM).map(|call| (*call, Vec::new())).collect()
}

#[rustfmt::skip]
const PACKETS: &[i64] = &[
    // Memory.
    libc::SYS_brk, libc::SYS_madvise, libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_munmap,
    libc::SYS_membarrier,
    // Threads and signals.
    libc::SYS_clone, libc::SYS_clone3, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_futex, libc::SYS_getpid,
    libc::SYS_gettid, libc::SYS_prctl, libc::SYS_restart_syscall, libc::SYS_rseq, libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sched_getaffinity, libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler, libc::SYS_sched_setscheduler, libc::SYS_sched_yield, libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    // Time and waiting.
    libc::SYS_clock_getres, libc::SYS_clock_gettime, libc::SYS_clock_nanosleep, libc::SYS_getrusage,
    libc::SYS_gettimeofday, libc::SYS_nanosleep, libc::SYS_ppoll, libc::SYS_eventfd2,
    // Files, as far as Landlock and their modes let it.
    libc::SYS_close, libc::SYS_dup, libc::SYS_faccessat, libc::SYS_fcntl, libc::SYS_fdatasync, libc::SYS_fstat,
    libc::SYS_fsync, libc::SYS_ftruncate, libc::SYS_getcwd, libc::SYS_getdents64, libc::SYS_lseek,
    libc::SYS_newfstatat, libc::SYS_openat, libc::SYS_pread64, libc::SYS_pwrite64, libc::SYS_read, libc::SYS_readlinkat,
    libc::SYS_readv, libc::SYS_renameat, libc::SYS_statx, libc::SYS_unlinkat, libc::SYS_write, libc::SYS_writev,
    libc::SYS_getrandom, libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_uname,
    // Sockets; devices are read and written as files.
    libc::SYS_accept4, libc::SYS_bind, libc::SYS_connect, libc::SYS_getpeername, libc::SYS_getsockname,
    libc::SYS_getsockopt, libc::SYS_ioctl, libc::SYS_listen, libc::SYS_recvfrom, libc::SYS_recvmmsg,
    libc::SYS_recvmsg, libc::SYS_sendmmsg, libc::SYS_sendmsg, libc::SYS_sendto, libc::SYS_setsockopt,
    libc::SYS_shutdown, libc::SYS_wait4,
];

/// Calls that later processors do without.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD_PACKETS: &[i64] = &[
    libc::SYS_access, libc::SYS_arch_prctl, libc::SYS_lstat, libc::SYS_open, libc::SYS_poll, libc::SYS_readlink,
    libc::SYS_rename, libc::SYS_stat, libc::SYS_time, libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_PACKETS: &[i64] = &[];

#[rustfmt::skip]
const SYSTEM: &[i64] = &[
    libc::SYS_acct, libc::SYS_add_key, libc::SYS_adjtimex, libc::SYS_bpf, libc::SYS_chroot, libc::SYS_clock_adjtime,
    libc::SYS_clock_settime, libc::SYS_delete_module, libc::SYS_fanotify_init, libc::SYS_finit_module,
    libc::SYS_fsconfig, libc::SYS_fsmount, libc::SYS_fsopen, libc::SYS_fspick, libc::SYS_init_module,
    libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_io_uring_setup, libc::SYS_kcmp,
    libc::SYS_kexec_load, libc::SYS_keyctl, libc::SYS_mount, libc::SYS_mount_setattr, libc::SYS_move_mount,
    libc::SYS_open_by_handle_at, libc::SYS_open_tree, libc::SYS_perf_event_open, libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_ptrace,
    libc::SYS_quotactl, libc::SYS_reboot, libc::SYS_request_key, libc::SYS_setdomainname, libc::SYS_sethostname,
    libc::SYS_setns, libc::SYS_settimeofday, libc::SYS_swapoff, libc::SYS_swapon, libc::SYS_syslog,
    libc::SYS_umount2, libc::SYS_unshare, libc::SYS_userfaultfd, libc::SYS_vhangup,
];

/// Calls that later processors do without.
#[cfg(target_arch = "x86_64")]
const OLD_SYSTEM: &[i64] = &[libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_kexec_file_load];
#[cfg(not(target_arch = "x86_64"))]
const OLD_SYSTEM: &[i64] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_make_filters_and_do_not_overlap() {
        let packets = of_packets().expect("conditions");
        let system = of_system();
        assert!(packets.keys().all(|call| !system.contains_key(call)));
        // A list with a call twice would be shorter.
        assert_eq!(packets.len(), PACKETS.len() + OLD_PACKETS.len() + 2);
        assert_eq!(system.len(), SYSTEM.len() + OLD_SYSTEM.len());
        for processor in [TargetArch::x86_64, TargetArch::aarch64] {
            let action = SeccompAction::Errno(libc::EPERM as u32);
            let filter = SeccompFilter::new(packets.clone(), action, SeccompAction::Allow, processor);
            let program = filter.and_then(BpfProgram::try_from).expect("a filter");
            assert!(program.len() < 4096, "{}", program.len());
        }
    }
}
