//! The relation that the notation defines, walked in the order of the compressed header.

use std::collections::BTreeMap;

use super::Memory;
use super::parse::{Block, Expr, Method, Notation, Statement};

/// Part of a chain of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Static,
    Dynamic,
    Irregular,
}

/// A field: its value now, as far as it is known, and its value in the context.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) value: Option<u128>,
    pub(crate) before: Option<u128>,
    pub(crate) width: Option<u32>,
}

/// Fields and parameters of a method, as places of cells.
pub(crate) type Scope = BTreeMap<String, usize>;

/// What is known of a packet while its compressed header is read.
pub(crate) struct State<'a> {
    pub(crate) notation: &'a Notation,
    memory: &'a Memory,
    rohc: &'a [u8],
    pub(crate) ip: &'a [u8],
    profile: u128,
    /// Bit of `rohc` that comes next.
    at: usize,
    pub(crate) cells: Vec<Cell>,
    pub(crate) globals: Scope,
    /// Cells to remember of each method that describes a header.
    locals: BTreeMap<String, Scope>,
    /// Conditions that could not be decided yet.
    pub(crate) deferred: Vec<(Scope, Expr)>,
    /// Octets of the uncompressed headers.
    header_len: usize,
    /// CRCs that cover what is not known when they are read: of an IR packet, of control fields.
    ir_crc: Option<u8>,
    control_crc: Option<u8>,
}

pub(crate) fn mask(width: Option<u32>) -> u128 {
    width.filter(|&width| width < 128).map_or(u128::MAX, |width| (1 << width) - 1)
}

/// Returns `width` bits of `bytes` from bit `at` on.
fn bits(bytes: &[u8], at: usize, width: u32) -> Result<u128, String> {
    (at..at + width as usize).try_fold(0, |value, bit| {
        let octet = bytes.get(bit / 8).ok_or("the header is too short")?;
        Ok(value << 1 | u128::from(octet >> (7 - bit % 8) & 1))
    })
}

/// A CRC of RFC 4997 4.11.6: `polynomial` and start value reflected, low bits of octets first.
pub(crate) fn crc(polynomial: u8, start: u8, data: impl IntoIterator<Item = u8>) -> u8 {
    data.into_iter().fold(start, |crc, octet| {
        (0..8).fold(crc, |crc, bit| crc >> 1 ^ if (crc ^ octet >> bit) & 1 == 1 { polynomial } else { 0 })
    })
}

impl<'a> State<'a> {
    pub(crate) fn new(
        notation: &'a Notation,
        memory: &'a Memory,
        rohc: &'a [u8],
        ip: &'a [u8],
        profile: u128,
    ) -> Self {
        let mut state = Self {
            notation,
            memory,
            rohc,
            ip,
            profile,
            at: 0,
            cells: Vec::new(),
            globals: Scope::new(),
            locals: BTreeMap::new(),
            deferred: Vec::new(),
            header_len: 0,
            ir_crc: None,
            control_crc: None,
        };
        for (name, &width) in &notation.control {
            let value = (name == "profile").then_some(profile);
            let before = memory.global.get(name).copied();
            let cell = state.add(Cell { value, before, width: Some(width as u32) });
            state.globals.insert(name.clone(), cell);
        }
        state
    }

    fn add(&mut self, cell: Cell) -> usize {
        self.cells.push(cell);
        self.cells.len() - 1
    }

    fn read(&mut self, width: u32) -> Result<u128, String> {
        let value = bits(self.rohc, self.at, width)?;
        self.at += width as usize;
        Ok(value)
    }

    pub(crate) fn expect(&mut self, value: u128, width: u32) -> Result<(), String> {
        let found = self.read(width)?;
        (found == value).then_some(()).ok_or_else(|| format!("bits {found:#x} for {value:#x}"))
    }

    pub(crate) fn crc8_of_ir(&mut self) -> Result<(), String> {
        self.ir_crc = Some(self.read(8)? as u8);
        Ok(())
    }

    /// Reads the two octets behind the discriminator (RFC 5225 6.8.2.2).
    pub(crate) fn co_repair_crcs(&mut self, chain: &[&str]) -> Result<(), String> {
        self.expect(0, 1)?;
        let header = self.read(7)? as u8;
        self.expect(0, 5)?;
        self.control_crc = Some(self.read(3)? as u8);
        let mut at = 0;
        for name in chain {
            at = self.layout(name, self.ip[0] >> 4, at)?.1;
        }
        let computed = crc(0x79, 0x7f, self.ip[..at / 8].iter().copied());
        (computed == header).then_some(()).ok_or_else(|| "CRC-7".to_owned())
    }

    fn method(&self, name: &str) -> Result<&'a Method, String> {
        self.notation.methods.get(name).ok_or_else(|| format!("no method {name}"))
    }

    /// Reads the fields of the header `name` from bit `at` of the packet. Returns their scope and the bit behind them.
    fn layout(&mut self, name: &str, version: u8, at: usize) -> Result<(Scope, usize), String> {
        let method = self.method(name)?;
        let wanted = if version == 6 { "v6" } else { "v4" };
        let is_it = |block: &&Block| block.name.is_empty() || block.name == wanted;
        let block = method.blocks("UNCOMPRESSED").find(is_it).ok_or("no such layout")?;
        let (mut scope, mut at) = (self.parameters(method), at);
        for statement in &block.statements {
            let Statement::Field { names, encoding, len } = statement else { continue };
            let len = len.as_ref().and_then(|len| self.eval(&scope, len)).unwrap_or(0) as u32;
            let value = Some(bits(self.ip, at, len)?);
            let before = self.memory.local.get(&(name.to_owned(), names[0].clone())).copied();
            let cell = self.add(Cell { value, before, width: Some(len) });
            scope.insert(names[0].clone(), cell);
            at += len as usize;
            if encoding.is_some() {
                self.statement(&scope, statement)?;
            }
        }
        self.enforce_all(block, &scope)?;
        self.locals.insert(name.to_owned(), scope.clone());
        self.retry()?;
        Ok((scope, at))
    }

    fn parameters(&mut self, method: &Method) -> Scope {
        let mut scope = Scope::new();
        for parameter in &method.parameters {
            let value = match parameter.as_str() {
                "profile_value" => Some(self.profile),
                "is_innermost" => Some(1),
                "outer_ip_flag" => Some(0),
                _ => None,
            };
            let cell = self.add(Cell { value, before: None, width: None });
            scope.insert(parameter.clone(), cell);
        }
        scope
    }

    /// Reads a base header of the format named.
    pub(crate) fn base(&mut self, name: &str, format: &str) -> Result<(), String> {
        let method = self.method(name)?;
        let (scope, end) = self.layout(name, self.ip[0] >> 4, 0)?;
        self.header_len = end / 8;
        let block = method.blocks("COMPRESSED").find(|block| block.name == format);
        let block = block.ok_or_else(|| format!("no format {format} of {name}"))?;
        self.defaults(method, block, &scope)?;
        self.run(block, &scope)?;
        method.blocks("CONTROL").try_for_each(|control| self.run(control, &scope))?;
        self.retry()
    }

    /// Takes fields that a format does not mention from the context, as DEFAULT has them.
    ///
    /// Where one of two fields that CONTROL ties to each other is sent, the other follows from it.
    fn defaults(&mut self, method: &Method, format: &Block, scope: &Scope) -> Result<(), String> {
        let is_sent = |wanted: &str| {
            let is_it = |statement: &Statement| matches!(statement, Statement::Field { names, .. } if names.iter().any(|name| name == wanted));
            format.statements.iter().any(is_it)
        };
        let is_tied = |name: &str| match name {
            "sequence_number" => is_sent("msn"),
            "timestamp" => is_sent("ts_scaled"),
            "ts_scaled" => is_sent("timestamp"),
            "ts_offset" => is_sent("timestamp") || is_sent("ts_stride"),
            _ => false,
        };
        for statement in method.blocks("DEFAULT").flat_map(|block| &block.statements) {
            let Statement::Field { names, .. } = statement else { continue };
            let exists = self.place(scope, &names[0]).is_some();
            if exists && !is_sent(&names[0]) && !is_tied(&names[0]) {
                self.statement(scope, statement)?;
            }
        }
        Ok(())
    }

    /// Reads a part of the chain of these headers.
    pub(crate) fn chain(&mut self, names: &[&str], part: Part) -> Result<(), String> {
        let mut at = 0;
        for name in names {
            let method = self.method(name)?;
            let (mut scope, end) = self.layout(name, self.ip[0] >> 4, at)?;
            at = end;
            self.local_control(name, method, &mut scope, part == Part::Irregular);
            if part == Part::Irregular {
                self.keep_control(method)?;
            }
            if part != Part::Static {
                method.blocks("DEFAULT").try_for_each(|block| self.enforce_all(block, &scope))?;
            }
            self.one_of(
                method,
                &scope,
                match part {
                    Part::Static => "_static",
                    Part::Dynamic => "_dynamic",
                    Part::Irregular => "_irregular",
                },
            )?;
            if part != Part::Static {
                method.blocks("CONTROL").try_for_each(|control| self.run(control, &scope))?;
            }
            self.locals.insert((*name).to_owned(), scope);
        }
        self.header_len = at / 8;
        self.retry()
    }

    /// Takes control fields that the base header left open from the context.
    fn keep_control(&mut self, method: &Method) -> Result<(), String> {
        for statement in method.blocks("DEFAULT").flat_map(|block| &block.statements) {
            let Statement::Field { names, .. } = statement else { continue };
            let cell = self.globals.get(&names[0]).copied();
            if let Some(cell) = cell.filter(|&cell| self.cells[cell].value.is_none()) {
                self.cells[cell].value = self.cells[cell].before;
            }
        }
        Ok(())
    }

    /// Makes the control fields of a header. `is_kept`: they have the values of the context.
    fn local_control(&mut self, name: &str, method: &Method, scope: &mut Scope, is_kept: bool) {
        for statement in method.blocks("CONTROL").flat_map(|block| &block.statements) {
            let Statement::Field { names, encoding: None, len: Some(Expr::Number(len)) } = statement else {
                continue;
            };
            let before = self.memory.local.get(&(name.to_owned(), names[0].clone())).copied();
            let value = before.filter(|_| is_kept);
            let cell = self.add(Cell { value, before, width: Some(*len as u32) });
            scope.insert(names[0].clone(), cell);
        }
    }

    fn enforce_all(&mut self, block: &Block, scope: &Scope) -> Result<(), String> {
        block.statements.iter().try_for_each(|statement| match statement {
            Statement::Enforce(condition) => self.enforce(scope, condition),
            Statement::Field { .. } => Ok(()),
        })
    }

    /// Reads one of the formats of a method whose names have `ending`, the first that is possible.
    fn one_of(&mut self, method: &Method, scope: &Scope, ending: &str) -> Result<(), String> {
        let mut said = format!("no format {ending}");
        for block in method.blocks("COMPRESSED").filter(|block| block.name.contains(ending)) {
            let before = (self.at, self.cells.clone(), self.deferred.len());
            match self.run(block, scope) {
                Ok(()) => return Ok(()),
                Err(error) => said = format!("{}: {error}", block.name),
            }
            (self.at, self.cells) = (before.0, before.1);
            self.deferred.truncate(before.2);
        }
        Err(said)
    }

    fn run(&mut self, block: &Block, scope: &Scope) -> Result<(), String> {
        let scope = self.compressed_fields(block, scope);
        for statement in &block.statements {
            let declares =
                matches!(statement, Statement::Field { encoding: None, .. }) && block.kind == "CONTROL";
            if !declares {
                let result = self.statement(&scope, statement);
                result.map_err(|error| format!("{} {statement:?}: {error}", block.name))?;
            }
        }
        Ok(())
    }

    /// Returns the scope with the fields that a block has on the compressed side alone.
    fn compressed_fields(&mut self, block: &Block, scope: &Scope) -> Scope {
        let mut scope = scope.clone();
        for statement in &block.statements {
            let Statement::Field { names, len, .. } = statement else { continue };
            let width = len.as_ref().and_then(|len| self.eval(&scope, len)).map(|len| len as u32);
            for name in names {
                if self.place(&scope, name).is_none() {
                    let cell = self.add(Cell { value: None, before: None, width });
                    scope.insert(name.clone(), cell);
                }
            }
        }
        scope
    }

    fn statement(&mut self, scope: &Scope, statement: &Statement) -> Result<(), String> {
        match statement {
            Statement::Enforce(condition) => self.enforce(scope, condition),
            Statement::Field { names, encoding: None, len } => {
                let width = len.as_ref().and_then(|len| self.eval(scope, len)).ok_or("a length")?;
                let value = self.read(width as u32)?;
                self.set_named(scope, &names[0], value)
            }
            Statement::Field { names, encoding: Some(encoding), .. } => self.encoding(scope, names, encoding),
        }
    }

    fn encoding(&mut self, scope: &Scope, names: &[String], encoding: &Expr) -> Result<(), String> {
        match encoding {
            Expr::Bits(text) => text.chars().try_for_each(|bit| self.expect(u128::from(bit == '1'), 1)),
            Expr::Name(name, None) => self.named(scope, names, name, &[]),
            Expr::Call(name, arguments) => self.named(scope, names, name, arguments),
            _ => Err("not an encoding".to_owned()),
        }
    }

    fn named(
        &mut self,
        scope: &Scope,
        names: &[String],
        name: &str,
        arguments: &[Expr],
    ) -> Result<(), String> {
        let number =
            |at: usize| self.eval(scope, &arguments[at]).ok_or_else(|| format!("argument {at} of {name}"));
        match name {
            "irregular" => {
                let value = self.number_read(scope, &arguments[0])?;
                self.set_named(scope, &names[0], value)
            }
            "static" => {
                let cell = self.place(scope, &names[0]).ok_or("no field")?;
                let before = self.cells[cell].before.ok_or_else(|| format!("no context of {}", names[0]))?;
                self.set(cell, before)
            }
            "uncompressed_value" => {
                let value = number(1)?;
                self.set_named(scope, &names[0], value)
            }
            "compressed_value" => {
                let (width, value) = (number(0)?, number(1)?);
                self.expect(value, width as u32)
            }
            "lsb" => {
                let (bits, offset) = (number(0)? as u32, number(1)?);
                self.lsb(scope, &names[0], bits, offset)
            }
            "crc3" => self.header_crc(3, 0x06, 0x07),
            "crc7" => self.header_crc(7, 0x79, 0x7f),
            "control_crc3_encoding" => {
                self.control_crc = Some(self.read(3)? as u8);
                Ok(())
            }
            _ if self.notation.methods.contains_key(name) => self.invoke(scope, names, name, arguments),
            _ => self.prose(name, scope, &names[0]),
        }
    }

    fn number_read(&mut self, scope: &Scope, width: &Expr) -> Result<u128, String> {
        let width = self.eval(scope, width).ok_or("a width")?;
        self.read(width as u32)
    }

    fn header_crc(&mut self, width: u32, polynomial: u8, start: u8) -> Result<(), String> {
        let computed = crc(polynomial, start, self.ip[..self.header_len].iter().copied());
        self.expect(computed.into(), width)
    }

    /// Reads low bits of a value of the interval that lies around that of the context (RFC 4997 4.11.5).
    fn lsb(&mut self, scope: &Scope, name: &str, width: u32, offset: u128) -> Result<(), String> {
        let low = self.read(width)?;
        let cell = self.place(scope, name).ok_or("no field")?;
        let before = self.cells[cell].before.ok_or_else(|| format!("no context of {name}"))?;
        let first = before.wrapping_sub(offset);
        let value = first.wrapping_add(low.wrapping_sub(first) & mask(Some(width)));
        self.set(cell, value)
    }

    /// Applies an encoding method that the notation defines.
    fn invoke(
        &mut self,
        scope: &Scope,
        names: &[String],
        name: &str,
        arguments: &[Expr],
    ) -> Result<(), String> {
        let method = self.method(name)?;
        let mut inner = Scope::new();
        for (parameter, argument) in method.parameters.iter().zip(arguments) {
            let cell = match argument {
                Expr::Name(field, attribute) if attribute.as_deref() != Some("ULENGTH") => {
                    self.place(scope, field)
                }
                _ => None,
            };
            let value = self.eval(scope, argument);
            let cell = cell.unwrap_or_else(|| self.add(Cell { value, before: None, width: None }));
            inner.insert(parameter.clone(), cell);
        }
        let fields = method.blocks("UNCOMPRESSED").flat_map(|block| &block.statements);
        let fields = fields.filter_map(|field| match field {
            Statement::Field { names, .. } => Some(&names[0]),
            Statement::Enforce(_) => None,
        });
        for (field, outer) in fields.zip(names) {
            inner.insert(field.clone(), self.place(scope, outer).ok_or("no field")?);
        }
        self.local_control(name, method, &mut inner, false);
        self.one_of(method, &inner, "")
    }

    pub(crate) fn place(&self, scope: &Scope, name: &str) -> Option<usize> {
        scope.get(name).or_else(|| self.globals.get(name)).copied()
    }

    pub(crate) fn set_named(&mut self, scope: &Scope, name: &str, value: u128) -> Result<(), String> {
        let cell = self.place(scope, name).ok_or_else(|| format!("no field {name}"))?;
        self.set(cell, value)
    }

    pub(crate) fn set(&mut self, cell: usize, value: u128) -> Result<(), String> {
        let cell = &mut self.cells[cell];
        let value = value & mask(cell.width);
        match cell.value {
            Some(known) if known & mask(cell.width) != value => Err(format!("{value:#x} is {known:#x}")),
            _ => {
                cell.value = Some(value);
                Ok(())
            }
        }
    }

    /// Ends the header: the rest is payload. Returns what to remember.
    pub(crate) fn finish(mut self, base: &str, chain: &[&str]) -> Result<Memory, String> {
        let header_end = self.at.div_ceil(8);
        if !self.locals.contains_key(base) {
            self.layout(base, self.ip[0] >> 4, 0)?;
        }
        self.retry()?;
        self.late_crcs(header_end)?;
        if !self.at.is_multiple_of(8) || self.rohc[header_end..] != self.ip[self.header_len..] {
            return Err("what follows the header is not the payload".to_owned());
        }
        let mut memory = self.memory.clone();
        for (name, &cell) in &self.globals {
            if let Some(value) = self.cells[cell].value {
                memory.global.insert(name.clone(), value);
            }
        }
        for (method, scope) in
            self.locals.iter().filter(|(name, _)| *name == base || chain.contains(&name.as_str()))
        {
            for (name, &cell) in scope {
                if let Some(value) = self.cells[cell].value {
                    memory.local.insert((method.clone(), name.clone()), value);
                }
            }
        }
        self.remember_offset(base, &mut memory);
        Ok(memory)
    }

    fn late_crcs(&self, header_end: usize) -> Result<(), String> {
        if let Some(expected) = self.ir_crc {
            let covered = self.rohc[..header_end]
                .iter()
                .enumerate()
                .map(|(at, &octet)| if at == 2 { 0 } else { octet });
            if crc(0xe0, 0xff, covered) != expected {
                return Err("CRC-8".to_owned());
            }
        }
        match self.control_crc {
            Some(expected) if self.control_crc3(self.profile)? != expected => Err("control CRC-3".to_owned()),
            _ => Ok(()),
        }
    }
}
