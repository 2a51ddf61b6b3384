//! Congestion controllers of the kernel's TCP.

use rustix::net::{AddressFamily, SocketType, socket, sockopt};

/// Returns the controllers that the kernel has loaded, by its own names.
pub fn congestion_controls() -> Vec<String> {
    let all = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    all.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Returns `true` if the kernel has a controller. It loads the module of one that it has as such.
pub fn has_congestion_control(name: &str) -> bool {
    let chosen = socket(AddressFamily::INET, SocketType::STREAM, None)
        .and_then(|socket| sockopt::set_tcp_congestion(&socket, name));
    chosen.is_ok()
}

#[cfg(test)]
mod tests {
    use super::{congestion_controls, has_congestion_control};

    #[test]
    fn reno_is_always_there() {
        assert!(congestion_controls().iter().any(|name| name == "reno"));
        assert!(has_congestion_control("reno") && !has_congestion_control("no-such-controller"));
    }
}
