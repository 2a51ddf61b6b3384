//! Offer and answer (RFC 3264).

use std::net::IpAddr;

use super::{Address, Attribute, Media, Origin, Session};

/// Audio codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codec {
    /// RTP payload type.
    pub payload_type: u8,
    /// Encoding name (RFC 3551): "PCMU".
    pub name: String,
    /// RTP clock rate in Hz.
    pub clock: u32,
    /// Format parameters (`fmtp`).
    pub parameters: Option<String>,
}

/// Encoding name of telephone events (RFC 4733 7.1).
const TELEPHONE_EVENT: &str = "telephone-event";

/// Static payload types of audio (RFC 3551 6).
const STATIC: &[(u8, &str, u32)] = &[
    (0, "PCMU", 8000),
    (3, "GSM", 8000),
    (4, "G723", 8000),
    (5, "DVI4", 8000),
    (7, "LPC", 8000),
    (8, "PCMA", 8000),
    (9, "G722", 8000),
    (12, "QCELP", 8000),
    (13, "CN", 8000),
    (15, "G728", 8000),
    (18, "G729", 8000),
];

impl Codec {
    /// Creates a codec without parameters.
    pub fn new(payload_type: u8, name: &str, clock: u32) -> Codec {
        Codec { payload_type, name: name.to_owned(), clock, parameters: None }
    }

    /// Creates the events of a telephone: digits and tones (RFC 4733).
    pub fn telephone_events(payload_type: u8) -> Codec {
        Codec { parameters: Some("0-15".into()), ..Codec::new(payload_type, TELEPHONE_EVENT, 8000) }
    }

    fn is_events(&self) -> bool {
        self.name.eq_ignore_ascii_case(TELEPHONE_EVENT)
    }

    /// Returns `true` for an encoding of speech: neither comfort noise (RFC 3389) nor telephone events.
    fn is_speech(&self) -> bool {
        !self.name.eq_ignore_ascii_case("CN") && !self.is_events()
    }

    /// Returns `true` if both are the same encoding under any payload types.
    fn is_same(&self, other: &Codec) -> bool {
        self.name.eq_ignore_ascii_case(&other.name) && self.clock == other.clock
    }
}

/// Direction of media, as its describer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Both ways.
    SendRecv,
    /// Sending only.
    SendOnly,
    /// Receiving only.
    RecvOnly,
    /// Neither.
    Inactive,
}

impl Direction {
    const ALL: [(Direction, &'static str); 4] = [
        (Direction::SendRecv, "sendrecv"),
        (Direction::SendOnly, "sendonly"),
        (Direction::RecvOnly, "recvonly"),
        (Direction::Inactive, "inactive"),
    ];

    fn name(self) -> &'static str {
        Direction::ALL[self as usize].1
    }

    fn of(attributes: &[Attribute]) -> Option<Direction> {
        let named =
            |attribute: &Attribute| Direction::ALL.into_iter().find(|(_, name)| *name == attribute.name);
        attributes.iter().find_map(named).map(|(direction, _)| direction)
    }

    /// Returns the direction of media from the attributes of media and session.
    pub fn of_media(session: &Session, media: &Media) -> Direction {
        let own = Direction::of(&media.attributes).or_else(|| Direction::of(&session.attributes));
        own.unwrap_or(Direction::SendRecv)
    }

    /// Returns the direction as the peer sees it.
    pub fn reversed(self) -> Direction {
        match self {
            Direction::SendOnly => Direction::RecvOnly,
            Direction::RecvOnly => Direction::SendOnly,
            same => same,
        }
    }

    /// Returns `true` if media are sent.
    pub fn sends(self) -> bool {
        matches!(self, Direction::SendRecv | Direction::SendOnly)
    }

    /// Returns `true` if media are received.
    pub fn receives(self) -> bool {
        matches!(self, Direction::SendRecv | Direction::RecvOnly)
    }

    fn from_parts(sends: bool, receives: bool) -> Direction {
        match (sends, receives) {
            (true, true) => Direction::SendRecv,
            (true, false) => Direction::SendOnly,
            (false, true) => Direction::RecvOnly,
            (false, false) => Direction::Inactive,
        }
    }

    /// Returns the direction in which both agree: this one within the other.
    fn within(self, other: Direction) -> Direction {
        Direction::from_parts(self.sends() && other.sends(), self.receives() && other.receives())
    }
}

/// Audio of one user agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Address of media.
    pub address: IpAddr,
    /// Port of RTP.
    pub port: u16,
    /// Codecs, preferred first.
    pub codecs: Vec<Codec>,
    /// Packet interval in ms.
    pub ptime: u32,
    /// Direction.
    pub direction: Direction,
}

/// Outcome of offer and answer for the audio of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Address to send RTP to. `None` if the peer gave a host name.
    pub address: Option<IpAddr>,
    /// Port to send RTP to.
    pub port: u16,
    /// Codec to send, with the payload type that the peer expects.
    pub codec: Codec,
    /// Payload type of that codec in packets of the peer.
    pub receive_type: u8,
    /// Telephone events, if both sides have them.
    pub events: Option<Events>,
    /// Packet interval in ms, if the peer asks for one.
    pub ptime: Option<u32>,
    /// Direction, as this side sees it.
    pub direction: Direction,
}

/// Payload types of telephone events (RFC 4733).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events {
    /// Type that the peer expects.
    pub send: u8,
    /// Type in packets of the peer.
    pub receive: u8,
}

/// Error returned when an offer or answer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unacceptable {
    /// No media and codec in common (488 Not Acceptable Here).
    #[error("no codec in common")]
    NoCodec,
    /// No stream but those of SRTP has a port (488 Not Acceptable Here).
    #[error("SRTP alone")]
    Encrypted,
    /// The answer does not have the media of the offer, in their order.
    #[error("answer does not match the offer")]
    Mismatch,
}

/// Returns an offer of the capabilities.
pub fn offer(capabilities: &Capabilities, session: u64, version: u64) -> Session {
    let codecs = &capabilities.codecs;
    let media = audio(capabilities, codecs, capabilities.direction, "RTP/AVP");
    describe(capabilities, session, version, vec![media])
}

/// Returns the answer to an offer, and the outcome for this side (RFC 3264 6).
///
/// The first audio stream with a codec in common is accepted; every other stream is refused by port 0. Codecs keep the order and
/// payload types of the offer.
///
/// # Errors
/// Returns an error if no stream can be accepted.
pub fn answer(
    offer: &Session,
    capabilities: &Capabilities,
    session: u64,
    version: u64,
) -> Result<(Session, Negotiated), Unacceptable> {
    let mut negotiated = None;
    let mut media = Vec::with_capacity(offer.media.len());
    for theirs in &offer.media {
        let common = if negotiated.is_none() { in_common(theirs, capabilities) } else { vec![] };
        let Some(codec) = common.iter().find(|codec| codec.is_speech()).cloned() else {
            media.push(refusal(theirs));
            continue;
        };
        let direction = capabilities.direction.within(Direction::of_media(offer, theirs).reversed());
        let direction = unless_held(offer, theirs, direction);
        media.push(audio(capabilities, &common, direction, &theirs.protocol));
        let types = common.iter().find(|codec| codec.is_events()).map(|codec| codec.payload_type);
        let events = types.map(|of| Events { send: of, receive: of });
        let receive_type = codec.payload_type;
        negotiated = Some(outcome_of(offer, theirs, (codec, receive_type, events), direction));
    }
    let negotiated = negotiated.ok_or_else(|| reason_against(offer))?;
    Ok((describe(capabilities, session, version, media), negotiated))
}

/// Returns the outcome of an answer for the offerer (RFC 3264 7).
///
/// # Errors
/// Returns an error if the answer does not fit the offer or refuses all streams.
pub fn outcome(offer: &Session, answer: &Session) -> Result<Negotiated, Unacceptable> {
    let is_same =
        |(ours, theirs): (&Media, &Media)| ours.kind == theirs.kind && ours.protocol == theirs.protocol;
    if offer.media.len() != answer.media.len() || !offer.media.iter().zip(&answer.media).all(is_same) {
        return Err(Unacceptable::Mismatch);
    }
    let accepted =
        offer.media.iter().zip(&answer.media).find(|(ours, theirs)| ours.port != 0 && theirs.port != 0);
    let (ours, theirs) = accepted.ok_or(Unacceptable::NoCodec)?;
    let offered = codecs(ours);
    // The peer sends by the types of this side's description, and this side by those of the peer's.
    let own_type = |codec: &Codec| offered.iter().find(|own| codec.is_same(own)).map(|own| own.payload_type);
    let answered = codecs(theirs);
    let (codec, receive_type) = answered
        .iter()
        .filter(|codec| codec.is_speech())
        .find_map(|codec| Some((codec.clone(), own_type(codec)?)))
        .ok_or(Unacceptable::NoCodec)?;
    let events = answered.iter().filter(|codec| codec.is_events());
    let events = events
        .filter_map(|codec| Some(Events { send: codec.payload_type, receive: own_type(codec)? }))
        .next();
    let direction = Direction::of_media(offer, ours).within(Direction::of_media(answer, theirs).reversed());
    let direction = unless_held(answer, theirs, direction);
    Ok(outcome_of(answer, theirs, (codec, receive_type, events), direction))
}

/// Returns the address of media.
fn address_of(session: &Session, media: &Media) -> Option<IpAddr> {
    media.connection.as_ref().or(session.connection.as_ref()).and_then(Address::ip)
}

/// Returns the direction without sending to a peer that named no address.
///
/// Before RFC 3264, 0.0.0.0 put media on hold.
fn unless_held(session: &Session, media: &Media, direction: Direction) -> Direction {
    let is_held = address_of(session, media).is_some_and(|ip| ip.is_unspecified());
    if is_held { direction.within(Direction::RecvOnly) } else { direction }
}

/// Returns the reason why no stream of an offer can be accepted.
fn reason_against(offer: &Session) -> Unacceptable {
    let mut audio = offer.media.iter().filter(|media| media.kind == "audio" && media.port != 0).peekable();
    let is_encrypted = audio.peek().is_some() && audio.all(|media| media.protocol.contains("SAVP"));
    if is_encrypted { Unacceptable::Encrypted } else { Unacceptable::NoCodec }
}

fn outcome_of(
    session: &Session,
    media: &Media,
    (codec, receive_type, events): (Codec, u8, Option<Events>),
    direction: Direction,
) -> Negotiated {
    let address = address_of(session, media);
    let ptime = media.attribute("ptime").and_then(|ptime| ptime.value.as_deref()?.trim().parse().ok());
    Negotiated { address, port: media.port, codec, receive_type, events, ptime, direction }
}

fn in_common(media: &Media, capabilities: &Capabilities) -> Vec<Codec> {
    let is_audio = media.kind == "audio" && media.port != 0 && media.protocol == "RTP/AVP";
    let theirs = if is_audio { codecs(media) } else { vec![] };
    let common: Vec<Codec> =
        theirs.into_iter().filter(|codec| capabilities.codecs.iter().any(|own| own.is_same(codec))).collect();
    // Comfort noise alone does not make a conversation (RFC 3389, section 4), and neither do digits.
    if common.iter().any(Codec::is_speech) { common } else { Vec::new() }
}

/// Returns the codecs of a media description, in its order. Formats that are not described are left out.
pub(super) fn codecs(media: &Media) -> Vec<Codec> {
    media.formats.iter().filter_map(|format| codec(media, format)).collect()
}

fn codec(media: &Media, format: &str) -> Option<Codec> {
    let payload_type: u8 = format.parse().ok().filter(|number| *number < 128)?;
    let of_format = |value: &'_ str| {
        value.split_once(' ').filter(|(number, _)| *number == format).map(|(_, rest)| rest.to_owned())
    };
    let parameters = media.values("fmtp").find_map(of_format);
    let Some(map) = media.values("rtpmap").find_map(of_format) else {
        let (_, name, clock) = STATIC.iter().find(|(number, ..)| *number == payload_type)?;
        return Some(Codec { parameters, ..Codec::new(payload_type, name, *clock) });
    };
    let mut parts = map.trim().split('/');
    let (name, clock) = (parts.next()?, parts.next()?.parse().ok()?);
    Some(Codec { parameters, ..Codec::new(payload_type, name, clock) })
}

fn audio(capabilities: &Capabilities, codecs: &[Codec], direction: Direction, protocol: &str) -> Media {
    let mut attributes = vec![];
    for codec in codecs {
        let Codec { payload_type, name, clock, parameters } = codec;
        attributes.push(Attribute::new("rtpmap", Some(format!("{payload_type} {name}/{clock}"))));
        let parameters =
            parameters.iter().map(|text| Attribute::new("fmtp", Some(format!("{payload_type} {text}"))));
        attributes.extend(parameters);
    }
    attributes.push(Attribute::new("ptime", Some(capabilities.ptime.to_string())));
    attributes.push(Attribute::new(direction.name(), None));
    Media {
        kind: "audio".into(),
        port: capabilities.port,
        ports: None,
        protocol: protocol.to_owned(),
        formats: codecs.iter().map(|codec| codec.payload_type.to_string()).collect(),
        connection: None,
        bandwidth: vec![],
        attributes,
    }
}

/// Returns the same media with port 0 (RFC 3264 6).
fn refusal(media: &Media) -> Media {
    Media { port: 0, ports: None, connection: None, bandwidth: vec![], attributes: vec![], ..media.clone() }
}

fn describe(capabilities: &Capabilities, session: u64, version: u64, media: Vec<Media>) -> Session {
    let address = Address::new(capabilities.address);
    Session {
        origin: Origin { user: "-".into(), session, version, address: address.clone() },
        name: "-".into(),
        connection: Some(address),
        bandwidth: vec![],
        times: vec![(0, 0)],
        attributes: vec![],
        media,
    }
}
