//! Two real hosts and an emulated link between them.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bentpipe_emu::{Control, Driver, Monotonic, Namespace, Setup, request_realtime_priority};
use bentpipe_net::link::{self, Link};
use bentpipe_net::{Element, ExternalPort, Port};
use bentpipe_sim::{Builder, ElementId};
use bentpipe_testkit::{PATIENCE, Turn, able_live};
use bentpipe_units::Time;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Waits for the turn of a live test, if this machine can run any.
pub(crate) fn able() -> Option<Turn> {
    able_live(&["ip", "ping", "iperf3"])
}

/// Two real hosts, 10.77.0.1 and 10.77.0.2, at the ends of one link, and a thread that emulates it.
pub(crate) struct Bench {
    pub(crate) left: Namespace,
    pub(crate) right: Namespace,
    pub(crate) control: Control,
    /// The link from left to right.
    pub(crate) link: ElementId,
    stop: Arc<AtomicBool>,
    emulator: Option<std::thread::JoinHandle<Driver<Monotonic>>>,
}

impl Bench {
    /// A link that is the same in both directions.
    pub(crate) fn start(config: &link::Config) -> Bench {
        Bench::with_channel(config, None)
    }

    /// The same, with an Ethernet interface at the left host.
    pub(crate) fn ethernet(config: &link::Config) -> Bench {
        Bench::build(config, None, true)
    }

    /// Packets from left to right also pass a channel behind the link.
    pub(crate) fn with_channel(config: &link::Config, channel: Option<Box<dyn Element>>) -> Bench {
        Bench::build(config, channel, false)
    }

    fn build(config: &link::Config, channel: Option<Box<dyn Element>>, ethernet: bool) -> Bench {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let [left, right] = ["l", "r"].map(|end| Namespace::create(&format!("{end}{number}")).expect("able"));
        let addresses = ["10.77.0.1", "10.77.0.2"].map(|text| text.parse().expect("an address"));
        let setup = addresses.map(|address| Setup { addresses: vec![(address, 24)], mtu_bytes: 1500 });
        let mut builder = Builder::new(1);
        let gates =
            ["left", "right"].map(|name| builder.add(format!("node/{name}"), ExternalPort::default()));
        let links = [("forward", 0, 1), ("return", 1, 0)].map(|(way, from, to)| {
            let link = builder.add(format!("link/{way}"), Link::new(config).expect("a link"));
            builder.connect((gates[from], ExternalPort::NETWORK), (link, Port(0)));
            builder.connect((link, Port(0)), (gates[to], ExternalPort::NETWORK));
            link
        });
        if let Some(channel) = channel {
            let channel = builder.add_boxed("link/forward/channel", channel);
            builder.connect((links[0], Port(0)), (channel, Port(0)));
            builder.connect((channel, Port(0)), (gates[1], ExternalPort::NETWORK));
        }
        let mut driver = Driver::new(builder.build().expect("a network"), Monotonic::start());
        if ethernet {
            let tap = left.attach_ethernet("sat0", &setup[0], vec![addresses[1]]);
            driver.open(gates[0], tap.expect("able"));
        } else {
            driver.open(gates[0], left.attach("sat0", &setup[0]).expect("able"));
        }
        driver.open(gates[1], right.attach("sat0", &setup[1]).expect("able"));
        let (control, stop) = (driver.control(), Arc::new(AtomicBool::new(false)));
        let emulator = emulate(driver, Arc::clone(&stop));
        Bench { left, right, control, link: links[0], stop, emulator: Some(emulator) }
    }

    /// Runs a program on the left host and gives what it printed.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> String {
        let output = self.left.command(program).args(args).output().expect("starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A socket on the left and one on the right that it is connected to.
    pub(crate) fn sockets(&self) -> [UdpSocket; 2] {
        let bind = |host: &Namespace, address: &str| {
            host.within(|| UdpSocket::bind(address)).expect("inside").expect("an address of the host")
        };
        let (from, to) = (bind(&self.left, "10.77.0.1:0"), bind(&self.right, "10.77.0.2:4000"));
        from.connect("10.77.0.2:4000").expect("an address");
        to.set_read_timeout(Some(PATIENCE)).expect("a time");
        has_room(&to);
        [from, to]
    }

    /// Returns `true` once the emulator has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.emulator.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }

    pub(crate) fn finish(mut self) -> Driver<Monotonic> {
        self.stop.store(true, Ordering::Relaxed);
        self.emulator.take().expect("running").join().expect("no panic")
    }
}

/// Gives a socket room for what comes at once after a pause of the machine: a tenth of a second of the fastest link.
fn has_room(socket: &UdpSocket) {
    let bytes: libc::c_int = 1 << 23;
    let (value, len) = ((&raw const bytes).cast(), size_of_val(&bytes) as libc::socklen_t);
    // SAFETY: reads an int, with its length.
    let set =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value, len) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Puts this thread before the rest of a busy machine, where that is allowed.
pub(crate) fn on_time() {
    if let Err(error) = request_realtime_priority() {
        eprintln!("no real-time priority: {error}");
    }
}

fn emulate(
    mut driver: Driver<Monotonic>,
    stop: Arc<AtomicBool>,
) -> std::thread::JoinHandle<Driver<Monotonic>> {
    std::thread::spawn(move || {
        on_time();
        driver.run(Time::NEVER, &stop);
        driver
    })
}
