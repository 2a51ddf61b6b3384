//! Table of media: one row a kind.

use bentpipe_sim::ElementId;

use crate::{
    Artefact, Assembly, At, CaptureFormat, CapturePoint, Installed, NativeChannel, NativeEnds, Part, Problem,
    SharedParts, Site, TunnelEnds, Wired,
};

/// Row of the table while links are wired.
pub struct Row<'s> {
    /// Numbers of the members among all members of all kinds.
    pub members: Vec<usize>,
    /// Assembly of the kind.
    pub assembly: Box<dyn Assembly + 's>,
}

/// Native channel among those of all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Native {
    row: usize,
    number: usize,
}

/// Assemblies of all kinds, in the order of their rows.
pub struct Assemblies<'s> {
    rows: Vec<Row<'s>>,
    /// Row and number of each member of all kinds.
    places: Vec<(usize, usize)>,
}

impl<'s> Assemblies<'s> {
    /// Creates the assemblies of `count` members.
    pub fn new(rows: Vec<Row<'s>>, count: usize) -> Assemblies<'s> {
        let mut places = vec![(0, 0); count];
        for (row, Row { members, .. }) in rows.iter().enumerate() {
            members.iter().enumerate().for_each(|(n, member)| places[*member] = (row, n));
        }
        Assemblies { rows, places }
    }

    /// Records shared elements of all kinds.
    ///
    /// # Errors
    /// Returns an error if a configuration is impossible.
    pub fn begin(&mut self, site: &mut Site<'_>) -> Result<(), Problem> {
        self.rows.iter_mut().try_for_each(|row| row.assembly.begin(site))
    }

    /// Records the elements of a member.
    ///
    /// # Errors
    /// Returns an error if a configuration is impossible.
    pub fn wire(&mut self, member: usize, site: &mut Site<'_>) -> Result<Wired, Problem> {
        let (row, number) = self.places[member];
        self.rows[row].assembly.wire(number, site)
    }

    /// Connects what needs all members.
    pub fn end(&mut self, site: &mut Site<'_>) {
        self.rows.iter_mut().for_each(|row| row.assembly.end(site));
    }

    /// Passes the addresses of a member whose packets pass in a tunnel.
    pub fn tunnel(&mut self, member: usize, ends: TunnelEnds) {
        let (row, number) = self.places[member];
        self.rows[row].assembly.tunnel(number, ends);
    }

    /// Adds a channel for what a flow sends without IP, if the medium carries it.
    pub fn add_native(&mut self, member: usize, channel: &NativeChannel) -> Option<Native> {
        let (row, number) = self.places[member];
        Some(Native { row, number: self.rows[row].assembly.add_native(number, channel)? })
    }

    /// Returns the input of a native channel and its outputs, once all members are wired.
    pub fn native(&self, Native { row, number }: Native) -> Option<NativeEnds> {
        self.rows[row].assembly.native(number)
    }

    /// Returns the format of packets that enter or leave a member.
    pub fn packets(&self, member: usize) -> Box<dyn CaptureFormat> {
        let (row, number) = self.places[member];
        self.rows[row].assembly.packets(number)
    }

    /// Returns the capture of a member's line, if it has other units than packets.
    pub fn on_line(&self, member: usize, nulls: bool) -> Option<CapturePoint<At>> {
        let (row, number) = self.places[member];
        self.rows[row].assembly.on_line(number, nulls)
    }

    /// Returns the files that a run leaves of all kinds.
    pub fn artefacts(&self) -> Vec<Artefact<At>> {
        self.rows.iter().flat_map(|row| row.assembly.artefacts()).collect()
    }

    /// Returns elements of shared objects that may change while the network runs.
    pub fn shared_parts(&self) -> SharedParts<Part> {
        self.rows.iter().flat_map(|row| row.assembly.shared_parts()).collect()
    }
}

/// Returns shared parts by the numbers of their elements.
pub fn numbered_parts(parts: SharedParts<Part>, installed: &Installed) -> SharedParts<ElementId> {
    let number = |parts: Vec<Part>| parts.into_iter().map(|part| installed.element(part)).collect();
    parts.into_iter().map(|(path, parts)| (path, number(parts))).collect()
}

/// Returns `true` if a value is the default of its type.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Declares the enum of all media, the struct of their shared tables, and the dispatch.
///
/// It dispatches to [`MediumKind`](crate::MediumKind). A row is a doc comment, the variant, the word that
/// files have, and the type that implements the kind; `shares` names the table of objects that its links
/// share. Rows are appended, never sorted: the place of a row is a part of results.
#[macro_export]
macro_rules! media {
    ($(
        $(#[$meta:meta])*
        $Variant:ident $word:literal $Config:ty
        $(, shares $(#[$shared_meta:meta])* $table:ident: $Shared:ty)?;
    )*) => {
        /// Medium of a link, or of one of its directions.
        #[derive(
            Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize,
            ::schemars::JsonSchema,
        )]
        #[serde(tag = "kind")]
        pub enum Medium {
            $( $(#[$meta])* #[serde(rename = $word)] $Variant($Config), )*
        }

        /// Objects that links share by name.
        #[derive(
            Clone, Debug, Default, PartialEq, ::serde::Serialize,
            ::serde::Deserialize, ::schemars::JsonSchema,
        )]
        pub struct Shared {
            $($(
                $(#[$shared_meta])*
                #[serde(default, skip_serializing_if = "bentpipe_site::is_default")]
                pub $table: $Shared,
            )?)*
        }

        impl Medium {
            /// Words of all kinds, in the order of their rows.
            pub const KINDS: &[&str] = &[$($word),*];

            /// Returns the word of its kind.
            pub fn word(&self) -> &'static str {
                match self { $( Medium::$Variant(_) => $word, )* }
            }

            /// Returns where it may be given.
            pub fn scope(&self) -> $crate::Scope {
                match self { $( Medium::$Variant(_) => <$Config as $crate::MediumKind>::SCOPE, )* }
            }

            /// Returns `true` if a link of this kind is checked without the others.
            pub fn is_alone(&self) -> bool {
                match self { $( Medium::$Variant(_) => <$Config as $crate::MediumKind>::IS_ALONE, )* }
            }

            /// Returns the settings that it takes.
            pub fn takes(&self) -> $crate::Takes {
                match self { $( Medium::$Variant(_) => <$Config as $crate::MediumKind>::TAKES, )* }
            }

            /// Returns the longest IP packet where the link does not say one.
            pub fn mtu(&self) -> ::bentpipe_units::Bytes {
                match self { $( Medium::$Variant(kind) => $crate::MediumKind::mtu(kind), )* }
            }

            /// Returns the name of the stream that links have in common for groups.
            pub fn multicast(&self) -> Option<String> {
                match self { $( Medium::$Variant(kind) => $crate::MediumKind::multicast(kind), )* }
            }

            /// Checks that a direction can be emulated apart from its receiving node.
            ///
            /// # Errors
            /// Returns an error if the receiving node has a part of its medium.
            pub fn cut(member: &$crate::Member<'_, Medium>) -> Result<(), $crate::Problem> {
                match member.medium {
                    $( Medium::$Variant(kind) => <$Config as $crate::MediumKind>::cut(&member.with(kind)), )*
                }
            }

            /// Returns the passage of packets in a direction.
            pub fn passage(&self, way: $crate::Way) -> $crate::Passage {
                match self { $( Medium::$Variant(kind) => $crate::MediumKind::passage(kind, way), )* }
            }

            /// Returns the announcement of a tunnel's end.
            pub fn service(&self) -> Option<$crate::TunnelService> {
                match self { $( Medium::$Variant(kind) => $crate::MediumKind::service(kind), )* }
            }

            /// Converts it to the medium of copy `n` of its link.
            pub fn copy(&mut self, n: u32) {
                match self { $( Medium::$Variant(kind) => $crate::MediumKind::copy(kind, n), )* }
            }

            /// Sets the limits that an emulation needs and reports them.
            pub fn bound(&mut self, link: &str, notices: &mut Vec<String>) {
                match self { $( Medium::$Variant(kind) => $crate::MediumKind::bound(kind, link, notices), )* }
            }

            /// Reports errors of the media of all links, and of their shared objects.
            pub fn check(
                all: &[$crate::Member<'_, Medium>],
                shared: &Shared,
                review: &mut $crate::Review<'_>,
            ) {
                $({
                    let (_, of) = $crate::media!(@of all, $Variant);
                    <$Config as $crate::MediumKind>::check(&of, $crate::media!(@table shared $($table)?), review);
                    $( $crate::SharedTable::check(&shared.$table, review); )?
                })*
            }

            /// Returns rate and delay of all links.
            ///
            /// # Errors
            /// Returns an error if they cannot be found.
            pub fn facts(
                all: &[$crate::Member<'_, Medium>],
                shared: &Shared,
            ) -> Result<Vec<$crate::Facts>, $crate::Problem> {
                let mut found = vec![None; all.len()];
                $({
                    let (numbers, of) = $crate::media!(@of all, $Variant);
                    let facts = <$Config as $crate::MediumKind>::facts(&of, $crate::media!(@table shared $($table)?))?;
                    numbers.into_iter().zip(facts).for_each(|(n, facts)| found[n] = Some(facts));
                })*
                Ok(found.into_iter().flatten().collect())
            }

            /// Returns the cost of packets on all links.
            ///
            /// # Errors
            /// Returns an error if a shared object is impossible.
            pub fn costs(
                all: &[$crate::Member<'_, Medium>],
                shared: &Shared,
            ) -> Result<Vec<Box<dyn $crate::Cost>>, $crate::Problem> {
                let mut found: Vec<Option<Box<dyn $crate::Cost>>> = all.iter().map(|_| None).collect();
                $({
                    let (numbers, of) = $crate::media!(@of all, $Variant);
                    let costs = <$Config as $crate::MediumKind>::costs(&of, $crate::media!(@table shared $($table)?))?;
                    numbers.into_iter().zip(costs).for_each(|(n, cost)| found[n] = Some(cost));
                })*
                Ok(found.into_iter().flatten().collect())
            }

            /// Returns the shares that links have of common capacity.
            ///
            /// # Errors
            /// Returns an error if a shared object is impossible.
            pub fn shares(
                all: &[$crate::Member<'_, Medium>],
                shared: &Shared,
            ) -> Result<Vec<$crate::ShareBudget>, $crate::Problem> {
                let mut found = Vec::new();
                $({
                    let (_, of) = $crate::media!(@of all, $Variant);
                    found.extend(<$Config as $crate::MediumKind>::shares(&of, $crate::media!(@table shared $($table)?))?);
                })*
                Ok(found)
            }

            /// Returns the assemblies of all kinds.
            pub fn assemblies<'s>(
                all: &[$crate::Member<'s, Medium>],
                shared: &'s Shared,
            ) -> $crate::Assemblies<'s> {
                let mut rows = Vec::new();
                $({
                    let (members, of) = $crate::media!(@of all, $Variant);
                    let table = $crate::media!(@table shared $($table)?);
                    let assembly = <$Config as $crate::MediumKind>::assembly(rows.len(), of, table);
                    rows.push($crate::Row { members, assembly });
                })*
                $crate::Assemblies::new(rows, all.len())
            }

            /// Lists what changes at a direction of a link while it runs.
            ///
            /// # Errors
            /// Returns an error if something differs that cannot be changed.
            pub fn change(
                at: &$crate::Changing<'_, Medium>,
                to: &mut $crate::Changes,
            ) -> Result<(), $crate::Problem> {
                match (at.before.medium, at.after.medium) {
                    $( (Medium::$Variant(before), Medium::$Variant(after)) => {
                        let (before, after) = (at.before.with(before), at.after.with(after));
                        let at = $crate::Changing { handle: at.handle, before, after };
                        <$Config as $crate::MediumKind>::change(&at, to)
                    } )*
                    _ => Err(at.refusal("medium", "expected the medium that the scenario started with")),
                }
            }

            /// Lists what changes at shared objects while the network runs.
            ///
            /// # Errors
            /// Returns an error if something differs that cannot be changed.
            pub fn change_shared(
                before: &Shared,
                after: &Shared,
                parts: &$crate::SharedParts<$crate::expansion::ElementId>,
                to: &mut $crate::Changes,
            ) -> Result<(), $crate::Problem> {
                $($(
                    <$Config as $crate::MediumKind>::change_shared(&before.$table, &after.$table, parts, to)?;
                )?)*
                Ok(())
            }
        }

        impl Shared {
            /// Names of all tables.
            pub const TABLES: &[&str] = &[$($(stringify!($table),)?)*];

            /// Copies what ends at nodes of which there are several.
            pub fn spread(&mut self, count: &dyn Fn(&str) -> u32) {
                $($( $crate::SharedTable::spread(&mut self.$table, count); )?)*
            }

            /// Sets the limits that an emulation needs and reports them.
            pub fn bound(&mut self, notices: &mut Vec<String>) {
                $($( $crate::SharedTable::bound(&mut self.$table, notices); )?)*
            }
        }
    };
    (@table $shared:ident) => { &() };
    (@table $shared:ident $table:ident) => { &$shared.$table };
    (@of $all:ident, $Variant:ident) => {{
        let of = $all.iter().enumerate().filter_map(|(n, member)| match member.medium {
            Medium::$Variant(kind) => Some((n, member.with(kind))),
            #[allow(unreachable_patterns)]
            _ => None,
        });
        let (numbers, of): (Vec<usize>, Vec<_>) = of.unzip();
        (numbers, of)
    }};
}
