//! Packets of flows, one by one, with their times, delays and losses.

use std::io::{self, BufRead, Write};

use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::writer::SerializedRowGroupWriter;
use bentpipe_units::{Span, Time};
use serde::{Deserialize, Serialize};

use super::nullable::Kind::{self, Number, Text, Whole};
use super::nullable::{column, writer};
use super::parquet::Out;

/// Name of the file with the packets of a run.
pub const PACKETS_FILE: &str = "packets.parquet";

/// Name of the file with the first packets of each flow. A line of JSON is for one flow.
pub const FIRST_PACKETS_FILE: &str = "first-packets.jsonl";

/// Number of packets that are kept of each flow for a drawing.
const FIRST: usize = 60;

/// Rows of a row group.
const GROUP_ROWS: usize = 1 << 18;

/// Delivery of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Arrival at the other end.
    Arrived,
    /// Loss.
    Lost,
    /// Taken over by a role, which sends packets of its own in its place.
    TakenOver,
    /// Wait in a queue at the end of the run.
    Waiting,
    /// Flight at the end of the run.
    InFlight,
}

impl Delivery {
    /// Returns the word in files.
    pub fn word(self) -> &'static str {
        match self {
            Delivery::Arrived => "arrived",
            Delivery::Lost => "lost",
            Delivery::TakenOver => "taken-over",
            Delivery::Waiting => "waiting",
            Delivery::InFlight => "in-flight",
        }
    }
}

/// Fields of a TCP header that a record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpFields {
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Flags, the eight bits behind the data offset.
    pub flags: u8,
}

/// Flags of TCP by bit, from the lowest.
const FLAGS: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];

impl TcpFields {
    /// Returns the names of the flags.
    pub fn flag_names(self) -> String {
        let set = (0..8).filter(|bit| self.flags >> bit & 1 == 1).map(|bit| FLAGS[bit]);
        set.collect::<Vec<_>>().join(" ")
    }
}

/// Packet of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketRecord {
    /// Number of the flow in [`Packets::flows`].
    pub flow: u32,
    /// Set if it went from the receiving end of the flow to the sending end.
    pub is_return: bool,
    /// Time at which its end sent it.
    pub sent: Time,
    /// Length of the IP packet in bytes.
    pub len: u32,
    /// Bytes of payload: behind the headers of TCP, UDP and DCCP, or else behind IP's. Later fragments are payload.
    pub payload: u32,
    /// Source and destination port.
    pub ports: [u16; 2],
    /// Fields of TCP, if it is a segment.
    pub tcp: Option<TcpFields>,
    /// Time of its arrival.
    pub arrived: Option<Time>,
    /// Number of the element that had it last, in [`Packets::places`].
    pub place: u32,
    /// Delivery.
    pub delivery: Delivery,
}

impl PacketRecord {
    /// Returns the one-way delay of a packet that arrived.
    pub fn delay(&self) -> Option<Span> {
        self.arrived.map(|arrived| arrived.since(self.sent))
    }
}

/// Flow of which packets are recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFlow {
    /// Name.
    pub name: String,
    /// Node that sends.
    pub from: String,
    /// Node or group that receives.
    pub to: String,
}

/// Packets of a run, in the order in which they were sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Packets {
    /// Recorded flows.
    pub flows: Vec<RecordedFlow>,
    /// Paths of elements, by number.
    pub places: Vec<String>,
    /// Packets.
    pub records: Vec<PacketRecord>,
}

impl Packets {
    /// Sets the fates of packets that are in no account.
    ///
    /// Lines keep the order of a flow's packets, so a packet is lost if one that was sent later has arrived. It is lost as well if
    /// it was sent more than twice the longest delay of its flow and direction before the end. Where none arrived, `empty_path`
    /// has the delay of a flow's empty path.
    pub fn settle(&mut self, end: Time, empty_path: impl Fn(usize) -> Span) {
        let waiting = self.waiting(empty_path);
        let mut has_later = vec![[false; 2]; self.flows.len()];
        for record in self.records.iter_mut().rev() {
            let (flow, direction) = (record.flow as usize, usize::from(record.is_return));
            let later = &mut has_later[flow][direction];
            record.delivery = match record.arrived {
                Some(_) => Delivery::Arrived,
                None if *later || end.since(record.sent) > waiting[flow][direction] => Delivery::Lost,
                None => Delivery::InFlight,
            };
            *later |= record.arrived.is_some();
        }
    }

    /// Returns the time after which missing packets of each flow and direction are lost.
    fn waiting(&self, empty_path: impl Fn(usize) -> Span) -> Vec<[Span; 2]> {
        let mut longest = vec![[None; 2]; self.flows.len()];
        for record in &self.records {
            let longest = &mut longest[record.flow as usize][usize::from(record.is_return)];
            *longest = record.delay().max(*longest);
        }
        let any = longest.iter().flatten().flatten().max().copied().unwrap_or_default();
        let of = |(flow, delays): (usize, [Option<Span>; 2])| {
            delays.map(|delay| delay.unwrap_or_else(|| any.max(empty_path(flow))) * 2)
        };
        longest.into_iter().enumerate().map(of).collect()
    }

    /// Returns where a packet was lost.
    fn lost_at(&self, record: &PacketRecord) -> Option<String> {
        (record.delivery == Delivery::Lost).then(|| self.place(record)).flatten()
    }

    fn place(&self, record: &PacketRecord) -> Option<String> {
        Some(self.places.get(record.place as usize)?.replace('/', "."))
    }

    /// Returns what became of a packet that neither arrived nor was lost, and where.
    fn stays(&self, record: &PacketRecord) -> Option<String> {
        let what = match record.delivery {
            Delivery::Arrived | Delivery::Lost => return None,
            Delivery::TakenOver => "taken over by",
            Delivery::Waiting => "waiting at",
            Delivery::InFlight => "in flight at",
        };
        Some(format!("{what} {}", self.place(record)?))
    }

    /// Writes the packets as Parquet, a row for each.
    ///
    /// # Errors
    /// Returns an error if `out` cannot be written to.
    pub fn write_parquet(&self, mut out: impl Write + Send) -> Result<()> {
        self.write_to(&mut out)
    }

    fn write_to(&self, out: Out<'_>) -> Result<()> {
        let mut file = writer(out, "packets", COLUMNS)?;
        for rows in self.records.chunks(GROUP_ROWS) {
            let mut group = file.next_row_group()?;
            self.write_rows(rows, &mut group)?;
            group.close()?;
        }
        file.close()?;
        Ok(())
    }

    /// Writes a row group in the order of [`schema`].
    fn write_rows<W: Write + Send>(
        &self,
        rows: &[PacketRecord],
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        let text = |text: &str| ByteArray::from(text.as_bytes().to_vec());
        let way = |row: &PacketRecord| if row.is_return { "return" } else { "forward" };
        let tcp = |row: &PacketRecord, field: fn(TcpFields) -> u32| row.tcp.map(|tcp| i64::from(field(tcp)));
        column::<DoubleType, _>(group, rows.iter().map(|row| Some(row.sent.as_secs_f64())))?;
        column::<ByteArrayType, _>(
            group,
            rows.iter().map(|row| Some(text(&self.flows[row.flow as usize].name))),
        )?;
        column::<ByteArrayType, _>(group, rows.iter().map(|row| Some(text(way(row)))))?;
        column::<Int64Type, _>(group, rows.iter().map(|row| Some(i64::from(row.len))))?;
        column::<Int64Type, _>(group, rows.iter().map(|row| Some(i64::from(row.payload))))?;
        column::<DoubleType, _>(group, rows.iter().map(|row| row.delay().map(Span::as_secs_f64)))?;
        column::<ByteArrayType, _>(group, rows.iter().map(|row| Some(text(row.delivery.word()))))?;
        column::<ByteArrayType, _>(group, rows.iter().map(|row| self.lost_at(row).as_deref().map(text)))?;
        for port in [0, 1] {
            column::<Int64Type, _>(group, rows.iter().map(|row| Some(i64::from(row.ports[port]))))?;
        }
        column::<Int64Type, _>(group, rows.iter().map(|row| tcp(row, |tcp| tcp.sequence)))?;
        column::<Int64Type, _>(group, rows.iter().map(|row| tcp(row, |tcp| tcp.acknowledgement)))?;
        column::<ByteArrayType, _>(group, rows.iter().map(|row| row.tcp.map(|tcp| text(&tcp.flag_names()))))
    }

    /// Returns the first packets of each flow, for a drawing.
    pub fn first(&self) -> Vec<FirstPackets> {
        let mut first: Vec<FirstPackets> = self.flows.iter().cloned().map(FirstPackets::of).collect();
        let mut numbers = vec![Numbers::default(); self.flows.len()];
        for record in &self.records {
            let of_flow = &mut first[record.flow as usize];
            if of_flow.packets.len() < FIRST {
                let label = numbers[record.flow as usize].label(record);
                of_flow.packets.push(FirstPacket {
                    is_return: record.is_return,
                    sent_s: record.sent.as_secs_f64(),
                    arrived_s: record.arrived.map(Time::as_secs_f64),
                    lost_at: self.lost_at(record),
                    stays: self.stays(record),
                    label,
                });
            }
        }
        first.retain(|flow| !flow.packets.is_empty());
        first
    }
}

/// First sequence number of each direction of a connection. Those of a drawing count from it.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers([Option<u32>; 2]);

impl Numbers {
    /// Returns what a drawing says of a packet.
    fn label(&mut self, record: &PacketRecord) -> String {
        let Some(tcp) = record.tcp else { return format!("{} B", record.payload) };
        let own = usize::from(record.is_return);
        let first = *self.0[own].get_or_insert(tcp.sequence);
        let (from, has) = (tcp.sequence.wrapping_sub(first), |bit: u8| tcp.flags >> bit & 1 == 1);
        let names: Vec<&str> = [(1, "SYN"), (0, "FIN"), (2, "RST")]
            .iter()
            .filter(|(bit, _)| has(*bit))
            .map(|(_, name)| *name)
            .collect();
        let mut parts: Vec<String> = names.into_iter().map(str::to_owned).collect();
        if record.payload > 0 {
            parts.push(format!("data {from} to {}", from.wrapping_add(record.payload - 1)));
        }
        let acknowledged = self.0[1 - own].map(|first| tcp.acknowledgement.wrapping_sub(first));
        if let Some(acknowledged) = acknowledged.filter(|_| has(4) && record.payload == 0) {
            parts.push(format!("ACK {acknowledged}"));
        }
        parts.join(", ")
    }
}

/// Packet of a drawing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstPacket {
    /// Set if it went back to the sending end of the flow.
    pub is_return: bool,
    /// Time at which it was sent, in seconds.
    pub sent_s: f64,
    /// Time of its arrival, in seconds.
    pub arrived_s: Option<f64>,
    /// Path of the element that lost it.
    pub lost_at: Option<String>,
    /// Other fate, and its place: "taken over by node.e.pep".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays: Option<String>,
    /// Content: "SYN", "data 1 to 1448", "ACK 1449".
    pub label: String,
}

/// First packets of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstPackets {
    /// Flow.
    #[serde(flatten)]
    pub flow: RecordedFlow,
    /// Packets in the order in which they were sent.
    pub packets: Vec<FirstPacket>,
}

impl FirstPackets {
    fn of(flow: RecordedFlow) -> FirstPackets {
        FirstPackets { flow, packets: Vec::new() }
    }
}

/// Writes the first packets of flows, a line of JSON for each flow.
///
/// # Errors
/// Returns an error if `out` cannot be written to.
pub fn write_first_packets(flows: &[FirstPackets], out: &mut dyn Write) -> io::Result<()> {
    for flow in flows {
        serde_json::to_writer(&mut *out, flow)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Reads the first packets of flows, as far as they are such.
pub fn read_first_packets(file: impl BufRead) -> Vec<FirstPackets> {
    file.lines().map_while(io::Result::ok).filter_map(|line| serde_json::from_str(&line).ok()).collect()
}

/// Columns of the file.
const COLUMNS: &[(&str, Kind)] = &[
    ("time_s", Number),
    ("flow", Text),
    ("direction", Text),
    ("size_bytes", Whole),
    ("payload_bytes", Whole),
    ("delay_s", Number),
    ("fate", Text),
    ("lost_at", Text),
    ("source_port", Whole),
    ("destination_port", Whole),
    ("sequence", Whole),
    ("acknowledgement", Whole),
    ("flags", Text),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sent_ms: u64, arrived_ms: Option<u64>, tcp: (u32, u32, u8), payload: u32) -> PacketRecord {
        let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
        PacketRecord {
            flow: 0,
            is_return: tcp.2 & 0x12 == 0x12 || tcp.2 == 0x10 && payload == 0,
            sent: ms(sent_ms),
            len: payload + 40,
            payload,
            ports: [1, 2],
            tcp: Some(TcpFields { sequence: tcp.0, acknowledgement: tcp.1, flags: tcp.2 }),
            arrived: arrived_ms.map(ms),
            place: 1,
            delivery: Delivery::InFlight,
        }
    }

    fn packets() -> Packets {
        let flow = RecordedFlow { name: "web".into(), from: "server".into(), to: "client".into() };
        let records = vec![
            record(0, Some(270), (1000, 0, 0x02), 0),
            record(270, Some(540), (7000, 1001, 0x12), 0),
            record(540, None, (1001, 7001, 0x18), 100),
            record(541, Some(811), (1101, 7001, 0x18), 100),
            record(811, Some(1081), (7001, 1001, 0x10), 0),
            record(1081, None, (1201, 7001, 0x18), 100),
        ];
        let mut packets = Packets {
            flows: vec![flow],
            places: vec!["node/server".into(), "link/sky/forward".into()],
            records,
        };
        packets.settle(Time::from_nanos(1_200_000_000), |_| Span::from_secs(1));
        packets
    }

    #[test]
    fn a_packet_is_lost_if_a_later_one_arrived() {
        let fates: Vec<&str> = packets().records.iter().map(|record| record.delivery.word()).collect();
        assert_eq!(fates, ["arrived", "arrived", "lost", "arrived", "arrived", "in-flight"]);
    }

    #[test]
    fn a_packet_is_lost_if_it_was_sent_too_long_before_the_end() {
        let mut packets = packets();
        let fates = |packets: &Packets| -> Vec<&str> {
            packets.records.iter().skip(4).map(|record| record.delivery.word()).collect()
        };
        // The longest delay is 270 ms.
        packets.settle(Time::from_nanos(1_621_000_000), |_| Span::from_secs(1));
        assert_eq!(fates(&packets), ["arrived", "in-flight"]);
        packets.settle(Time::from_nanos(1_622_000_000), |_| Span::from_secs(1));
        assert_eq!(fates(&packets), ["arrived", "lost"]);
        packets.records.iter_mut().for_each(|record| record.arrived = None);
        packets.settle(Time::from_nanos(2_500_000_000), |_| Span::from_secs(1));
        let arrived_none: Vec<&str> = packets.records.iter().map(|record| record.delivery.word()).collect();
        assert_eq!(arrived_none, ["lost", "lost", "in-flight", "in-flight", "in-flight", "in-flight"]);
    }

    #[test]
    fn first_packets_count_from_the_first_sequence_numbers() {
        let first = packets().first();
        let labels: Vec<&str> = first[0].packets.iter().map(|packet| packet.label.as_str()).collect();
        assert_eq!(
            labels,
            ["SYN", "SYN, ACK 1", "data 1 to 100", "data 101 to 200", "ACK 1", "data 201 to 300"]
        );
        assert_eq!(first[0].packets[2].lost_at.as_deref(), Some("link.sky.forward"));
        let mut file = Vec::new();
        write_first_packets(&first, &mut file).expect("memory");
        assert_eq!(read_first_packets(&file[..]), first);
    }

    #[test]
    fn the_file_has_a_row_for_each_packet() {
        use ::parquet::file::reader::{FileReader, SerializedFileReader};
        let mut file = Vec::new();
        packets().write_parquet(&mut file).expect("memory");
        let path = std::env::temp_dir().join(format!("bentpipe-packets-{}.parquet", std::process::id()));
        std::fs::write(&path, file).expect("a file");
        let reader = SerializedFileReader::new(std::fs::File::open(&path).expect("it")).expect("Parquet");
        std::fs::remove_file(&path).expect("it");
        let rows: Vec<String> =
            reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string()).collect();
        assert_eq!(rows.len(), 6);
        assert!(rows[2].contains("fate: \"lost\", lost_at: \"link.sky.forward\""), "{}", rows[2]);
        assert!(rows[2].contains("delay_s: null") && rows[3].contains("delay_s: 0.27"), "{}", rows[3]);
    }
}
