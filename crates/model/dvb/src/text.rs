//! Values of a configuration in text form: addresses, identifiers of streams.

use std::fmt;
use std::str::FromStr;

use bentpipe_net::text::TextError;
use bentpipe_wire::ethernet::MacAddr;
use bentpipe_wire::ts::Pid;

use crate::Modcod;

/// Address of a receiver: NPA address of ULE, MAC address of MPE, label of GSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub MacAddr);

impl FromStr for Address {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Address, TextError> {
        let bytes: Option<Vec<u8>> = text
            .split(':')
            .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2))
            .collect();
        let address = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        // RFC 4326 section 4.5 forbids an address of zeros.
        let address = address.filter(|address| *address != [0; 6]).map(MacAddr);
        address.map(Address).ok_or(TextError("an address such as \"02:00:00:00:00:01\""))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// PID of a stream of data, which tables and NULL packets do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataPid(Pid);

impl DataPid {
    /// Creates a PID from 0x20 to 0x1ffe; `None` for another.
    pub const fn new(number: u16) -> Option<DataPid> {
        match Pid::new(number) {
            Some(pid) if number >= 0x20 && number < Pid::NULL.number() => Some(DataPid(pid)),
            _ => None,
        }
    }

    /// Returns the PID `n` numbers higher; `None` if it is not one for data.
    pub fn plus(self, n: u32) -> Option<DataPid> {
        let number = u16::try_from(n).ok().and_then(|n| self.0.number().checked_add(n));
        number.and_then(DataPid::new)
    }

    /// Returns the PID.
    pub const fn pid(self) -> Pid {
        self.0
    }
}

impl FromStr for DataPid {
    type Err = TextError;

    fn from_str(text: &str) -> Result<DataPid, TextError> {
        let number = match text.strip_prefix("0x") {
            Some(hex) => u16::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        };
        number.and_then(DataPid::new).ok_or(TextError("a PID from \"0x20\" to \"0x1ffe\""))
    }
}

impl fmt::Display for DataPid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0.number())
    }
}

bentpipe_net::as_text! {
    Address, "Address", "02:00:00:00:00:01";
    DataPid, "DataPid", "0x201";
    Modcod, "Modcod", "QPSK 3/4";
}
