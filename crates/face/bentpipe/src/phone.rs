//! `bentpipe call` and `bentpipe answer`: SIP calls on real sockets.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use bentpipe_phone::{
    Answering, Dialling, Figures, MediaSettings, Phone, PhoneVoice, answer, is_digits, local_for, place,
    random_seed, resolve,
};
use bentpipe_record::write_whole;
use bentpipe_signalling::agent::{Config, Failure};
use bentpipe_signalling::digest::Account;
use bentpipe_signalling::sdp::{Capabilities, Codec, Direction};
use bentpipe_signalling::sip::{SipUri, Transport, Uri};
use bentpipe_signalling::transaction::{Peer, Timers};
use bentpipe_units::Span;
use clap::{Args, ValueEnum};

use crate::common::check_folders;
use crate::interrupt::{self, INTERRUPTED};
use crate::show::{note, out};

/// Local user agent.
#[derive(Debug, Args)]
struct LocalArgs {
    /// User name in From and Contact
    #[arg(long, value_name = "NAME", default_value = "bentpipe")]
    user: String,
    /// File with the password of the user, for digest authentication
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Codecs offered or accepted, preferred first
    #[arg(long, value_enum, value_delimiter = ',', default_value = "pcma,pcmu,gsm,g729")]
    codec: Vec<CodecName>,
    /// RTP port in session descriptions. With --voice it is that of the first line; else no media is sent
    #[arg(long, value_name = "PORT", default_value_t = 4000, value_parser = clap::value_parser!(u16).range(1..))]
    media_port: u16,
    /// Voice in both directions, such as '{ codec = "gsm" }'. Keys are those of `media` of traffic "sip"; the E-model rates it
    #[arg(long, value_name = "TABLE", value_parser = voice, conflicts_with = "codec")]
    voice: Option<PhoneVoice>,
    /// Bound of the error between this machine's clock and the other's. Default: delays between machines are not known
    #[arg(long, value_name = "TIME", requires = "voice")]
    clock_error: Option<Span>,
    /// Digits that each call sends as RTP events after half a second (RFC 4733)
    #[arg(long, value_name = "DIGITS", requires = "voice", default_value = "", hide_default_value = true, value_parser = digits)]
    dtmf: String,
    /// Estimate of the round-trip time (RFC 3261 T1)
    #[arg(long, value_name = "TIME", default_value = "500 ms")]
    t1: Span,
    /// Longest interval of repeated requests (RFC 3261 T2)
    #[arg(long, value_name = "TIME", default_value = "4 s")]
    t2: Span,
    /// Differentiated services codepoint of messages over UDP; voice has 46
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..64))]
    dscp: u8,
    /// Write the figures as JSON; "-" for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

/// Codec of session descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CodecName {
    /// G.711 A-law
    Pcma,
    /// G.711 mu-law
    Pcmu,
    /// GSM full rate
    Gsm,
    /// G.722
    G722,
    /// G.723.1
    G723,
    /// G.729
    G729,
    /// iLBC
    Ilbc,
}

/// Transport of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum TransportName {
    /// UDP, with retransmission
    #[default]
    Udp,
    /// TCP
    Tcp,
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Callee: sip:USER@HOST:PORT
    to: Uri,
    /// Local address. Default: any port of 127.0.0.1, or of the address that leads to the callee
    #[arg(long, value_name = "ADDRESS:PORT")]
    local: Option<SocketAddr>,
    /// Proxy that gets all requests
    #[arg(long, value_name = "HOST:PORT")]
    proxy: Option<String>,
    /// Transport of requests
    #[arg(long, value_enum, default_value_t)]
    transport: TransportName,
    /// Number of calls
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    calls: u64,
    /// Calls placed per second
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = rate)]
    rate: f64,
    /// Length of a call, from its answer
    #[arg(long, value_name = "TIME", default_value = "1 s")]
    hold: Span,
    /// Draw intervals and lengths of calls, exponentially distributed with these means
    #[arg(long)]
    random: bool,
    /// End after this time, with the calls that are left
    #[arg(long, value_name = "TIME")]
    duration: Option<Span>,
    /// Longest ringing before a call is cancelled
    #[arg(long, value_name = "TIME", default_value = "60 s")]
    ring_limit: Span,
    #[command(flatten)]
    own: LocalArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Local address: PORT of 127.0.0.1, or ADDRESS:PORT
    #[arg(default_value = "5060", value_parser = place_of)]
    at: SocketAddr,
    /// Time from INVITE to answer
    #[arg(long, value_name = "TIME", default_value = "0 s")]
    ring: Span,
    /// Length of a call, after which this side ends it. Default: the caller ends it
    #[arg(long, value_name = "TIME")]
    hold: Option<Span>,
    /// Answer the offer in 183 Session Progress, so that media flow while the call rings
    #[arg(long)]
    early_media: bool,
    /// Refuse all calls with this status
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(400..=699))]
    refuse: Option<u16>,
    /// Register with the registrar of this domain
    #[arg(long, value_name = "HOST:PORT")]
    register: Option<String>,
    /// Maximum number of calls at a time; more are refused with 503
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = most)]
    max_calls: usize,
    /// End after this number of calls
    #[arg(long, value_name = "N")]
    calls: Option<u64>,
    /// End after this time
    #[arg(long, value_name = "TIME")]
    duration: Option<Span>,
    #[command(flatten)]
    own: LocalArgs,
}

fn most(text: &str) -> Result<usize, String> {
    let most = text.parse().ok().filter(|most: &usize| (1..=1_000_000).contains(most));
    most.ok_or_else(|| "expected 1 to 1,000,000 calls".into())
}

fn digits(text: &str) -> Result<String, String> {
    let most = 100;
    let is_valid = is_digits(text) && text.len() <= most;
    if is_valid { Ok(text.to_owned()) } else { Err(format!("expected up to {most} of 0 to 9, *, #, A to D")) }
}

/// Reads a table of voice.
fn voice(text: &str) -> Result<PhoneVoice, String> {
    #[derive(serde::Deserialize)]
    struct File {
        media: PhoneVoice,
    }
    let file: Result<File, _> = toml::from_str(&format!("media = {text}"));
    let media = file.map_err(|error| error.message().to_owned())?.media;
    media.ensure().map_err(|error| error.to_string())?;
    Ok(media)
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| (1e-3..=1e5).contains(rate));
    rate.ok_or_else(|| "expected 0.001 to 100,000 calls per second".into())
}

fn place_of(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    text.parse()
        .map_err(|_| "expected PORT, as 5060, or ADDRESS:PORT, as 10.0.0.1:5060 or [fd00::1]:5060".into())
}

/// Places calls, prints the figures, and returns the exit code.
pub(crate) fn call(args: &CallArgs) -> Result<u8, String> {
    check_folders(args.own.json.as_deref())?;
    let stop = interrupt::flag();
    let uri = args.to.as_sip().ok_or("expected a URI such as \"sip:alice@192.0.2.1:5060\"")?;
    let hop = args.proxy.clone().unwrap_or_else(|| host_and_port(uri));
    let transport = args.transport(uri)?;
    let peer = Peer { transport, address: resolve(&hop)? };
    let local = args.local.map_or_else(|| local_for(peer.address), Ok)?;
    let mut phone = open(local, peer.transport, &args.own)?;
    let plan = Dialling {
        target: args.to.clone(),
        peer,
        calls: args.calls,
        interval: Span::from_secs_f64(1.0 / args.rate),
        hold: args.hold,
        ring_limit: args.ring_limit,
        capabilities: args.own.capabilities(local.ip()),
        duration: args.duration,
        random: args.random.then(random_seed),
    };
    let figures = place(&mut phone, &plan, &stop, |_| {});
    args.own.print(&figures)?;
    let is_cut = stop.load(std::sync::atomic::Ordering::Relaxed);
    let is_good = figures.failures() == 0 && figures.calls == args.calls;
    Ok(if is_cut { INTERRUPTED } else { u8::from(!is_good) })
}

/// Answers calls, prints the figures, and returns the exit code.
pub(crate) fn receive(args: &AnswerArgs) -> Result<u8, String> {
    check_folders(args.own.json.as_deref())?;
    let stop = interrupt::flag();
    let mut phone = open(args.at, Transport::Udp, &args.own)?;
    if !args.own.quiet {
        if let Some(most) = phone.sockets().lowered_limit() {
            note(&format!("the limit of open files allows {most} connections; help: `ulimit -n` shows it"));
        }
        note(&format!("listening at {}, UDP and TCP; press Ctrl-C to stop", phone.sockets().local()));
    }
    if let Some(registrar) = &args.register {
        let address = resolve(registrar)?;
        let domain = registrar.rsplit_once(':').map_or(&registrar[..], |(host, _)| host).to_owned();
        let (now, peer) = (phone.now(), Peer { transport: Transport::Udp, address });
        phone.agent().register(now, &domain, peer, 3600);
    }
    let plan = Answering {
        most: args.max_calls,
        refuse: args.refuse,
        ring: args.ring,
        hold: args.hold,
        calls: args.calls,
        duration: args.duration,
        early: args.early_media,
        capabilities: args.own.capabilities(args.at.ip()),
    };
    let figures = answer(&mut phone, &plan, &stop, |_| {}).map_err(|failure| registration(args, failure))?;
    args.own.print(&figures)?;
    Ok(u8::from(args.refuse.is_none() && figures.failures() > 0))
}

fn registration(args: &AnswerArgs, failure: Failure) -> String {
    let registrar = args.register.as_deref().unwrap_or_default();
    match failure {
        Failure::Status(401) => format!("{registrar} rejected the credentials of \"{}\"", args.own.user),
        Failure::Status(status) => {
            format!(
                "{registrar} refused the registration: {status} {}",
                bentpipe_signalling::sip::reason(status)
            )
        }
        Failure::Refused => format!("the registrar {registrar} has no program at this port"),
        Failure::Unreachable => format!("the registrar {registrar} cannot be reached"),
        _ => format!("no response from the registrar {registrar}"),
    }
}

impl CallArgs {
    /// Returns the transport of requests.
    ///
    /// A URI that asks for TLS is refused: in clear, others could read and forge the call (RFC 3261, section 26.2.2).
    fn transport(&self, uri: &SipUri) -> Result<Transport, String> {
        let named = uri.params.get("transport").map(str::to_ascii_lowercase);
        if uri.secure || named.as_deref() == Some("tls") {
            return Err(format!(
                "{}: TLS is not supported; help: write sip: without it, for a call in clear",
                self.to
            ));
        }
        let of_option = if self.transport == TransportName::Tcp { Transport::Tcp } else { Transport::Udp };
        match named.as_deref() {
            None | Some("udp") => Ok(of_option),
            Some("tcp") => Ok(Transport::Tcp),
            Some(other) => Err(format!("{}: transport \"{other}\": expected udp or tcp", self.to)),
        }
    }
}

impl LocalArgs {
    fn capabilities(&self, address: IpAddr) -> Capabilities {
        let codecs = self.codec.iter().map(|codec| codec.description()).collect();
        Capabilities { address, port: self.media_port, codecs, ptime: 20, direction: Direction::SendRecv }
    }

    fn account(&self) -> Result<Option<Account>, String> {
        let Some(path) = &self.password_file else { return Ok(None) };
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let password = text.lines().next().unwrap_or_default().to_owned();
        Ok(Some(Account { user: self.user.clone(), password }))
    }

    fn print(&self, figures: &Figures) -> Result<(), String> {
        if !self.quiet {
            out(&figures.to_string());
        }
        self.json.as_deref().map_or(Ok(()), |path| write(path, &format!("{:#}\n", figures.to_json())))
    }
}

impl CodecName {
    fn description(self) -> Codec {
        match self {
            CodecName::Pcma => Codec::new(8, "PCMA", 8000),
            CodecName::Pcmu => Codec::new(0, "PCMU", 8000),
            CodecName::Gsm => Codec::new(3, "GSM", 8000),
            CodecName::G722 => Codec::new(9, "G722", 8000),
            CodecName::G723 => Codec::new(4, "G723", 8000),
            CodecName::G729 => Codec::new(18, "G729", 8000),
            CodecName::Ilbc => Codec { parameters: Some("mode=20".into()), ..Codec::new(97, "iLBC", 8000) },
        }
    }
}

fn open(local: SocketAddr, transport: Transport, own: &LocalArgs) -> Result<Phone, String> {
    let is_token = own.user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.!~*'()+".contains(&byte));
    if own.user.is_empty() || !is_token {
        return Err(format!("--user: expected letters, digits and -_.!~*'()+, got \"{}\"", own.user));
    }
    let timers = Timers { t1: own.t1, t2: own.t2, ..Timers::default() };
    if own.t1.is_zero() || own.t2 < own.t1 {
        return Err("--t1, --t2: expected more than zero, and a T2 of at least T1".to_owned());
    }
    let config = Config { transport, timers, account: own.account()?, ..Config::new(&own.user, local) };
    let opened = Phone::open(config, random_seed());
    let mut phone = opened.map_err(|error| format!("cannot listen at {local}: {error}"))?;
    phone.set_dscp(own.dscp).map_err(|error| format!("--dscp: {error}"))?;
    if let Some(voice) = own.voice {
        if voice.silence_suppression && !own.dtmf.is_empty() {
            return Err(
                "--dtmf: digits take the place of speech, which `silence_suppression` leaves out".into()
            );
        }
        let digits = own.dtmf.clone();
        let settings =
            MediaSettings { voice, first_port: own.media_port, clock_error: own.clock_error, digits };
        phone.open_media(&settings).map_err(|error| format!("--voice, --media-port: {error}"))?;
    }
    Ok(phone)
}

fn host_and_port(uri: &SipUri) -> String {
    format!("{}:{}", uri.host, uri.port.unwrap_or(5060))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    write_whole(path, |file| file.write_all(text.as_bytes())).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: CallArgs,
    }

    #[test]
    fn a_call_that_asks_for_tls_or_an_unknown_transport_is_refused() {
        use clap::Parser;
        for (uri, expected) in [
            ("sips:bob@127.0.0.1", Err("TLS is not supported")),
            ("SIPS:bob@127.0.0.1:5060;transport=tcp", Err("TLS is not supported")),
            ("sip:bob@127.0.0.1;transport=TLS", Err("TLS is not supported")),
            ("sip:bob@127.0.0.1;transport=sctp", Err("expected udp or tcp")),
            ("sip:bob@127.0.0.1;transport=tcp", Ok(Transport::Tcp)),
            ("sip:bob@127.0.0.1;transport=udp", Ok(Transport::Udp)),
            ("sip:bob@127.0.0.1", Ok(Transport::Udp)),
        ] {
            let line = Line::try_parse_from(["call", uri]).expect("well-formed");
            let found = line.args.transport(line.args.to.as_sip().expect("a SIP URI"));
            match (&found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(*found, expected, "{uri}"),
                (Err(problem), Err(words)) => assert!(problem.contains(words), "{uri}: {problem}"),
                _ => panic!("{uri}: {found:?}"),
            }
            // Nothing is sent then.
            assert!(expected.is_ok() || call(&line.args).is_err(), "{uri}");
        }
    }

    #[test]
    fn answers_are_at_loopback_unless_an_address_is_given() {
        assert_eq!(place_of("5060"), Ok(SocketAddr::from(([127, 0, 0, 1], 5060))));
        assert_eq!(place_of("10.0.0.1:7"), Ok(SocketAddr::from(([10, 0, 0, 1], 7))));
        assert!(place_of("host").is_err() && rate("0").is_err() && rate("500").is_ok());
    }
}
