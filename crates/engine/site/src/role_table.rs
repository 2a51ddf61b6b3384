//! Table of roles: one row a kind.

/// Declares the enum of all roles, their shared tables, and the dispatch to [`RoleKind`](crate::RoleKind).
///
/// A row is a doc comment, the variant, the word that files have, and the type that implements the kind; `shares` names
/// the table of objects that its roles share.
#[macro_export]
macro_rules! roles {
    ($(
        $(#[$meta:meta])*
        $Variant:ident $word:literal $Config:ty
        $(, shares $(#[$shared_meta:meta])* $table:ident: $Shared:ty)?;
    )*) => {
        /// Role of a node: actions on packets in addition to forwarding.
        #[derive(
            Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize,
            ::schemars::JsonSchema,
        )]
        #[serde(tag = "kind")]
        pub enum Role {
            $( $(#[$meta])* #[serde(rename = $word)] $Variant($Config), )*
        }

        /// Objects that roles share by name.
        #[derive(
            Clone, Debug, Default, PartialEq, ::serde::Serialize,
            ::serde::Deserialize, ::schemars::JsonSchema,
        )]
        pub struct RoleTables {
            $($(
                $(#[$shared_meta])*
                #[serde(default, skip_serializing_if = "bentpipe_site::is_default")]
                pub $table: $Shared,
            )?)*
        }

        impl Role {
            /// Words of all kinds, in the order of their rows.
            pub const KINDS: &[&str] = &[$($word),*];

            /// Returns the word of its kind.
            pub fn word(&self) -> &'static str {
                match self { $( Role::$Variant(_) => $word, )* }
            }

            /// Reports its errors.
            pub fn check(
                &self,
                at: &$crate::RoleAt<'_>,
                tables: &RoleTables,
                review: &mut $crate::Review<'_>,
            ) {
                let _ = tables;
                match self { $( Role::$Variant(kind) => {
                    $crate::RoleKind::check(kind, at, $crate::roles!(@table tables $($table)?), review)
                } )* }
            }

            /// Sets up the node and creates the element.
            ///
            /// # Errors
            /// Returns an error if the configuration is impossible at this node.
            pub fn plan(
                &self,
                tables: &RoleTables,
                ground: &mut $crate::Ground<'_, '_>,
            ) -> Result<Box<dyn ::bentpipe_net::Element>, $crate::Problem> {
                let _ = tables;
                match self { $( Role::$Variant(kind) => {
                    $crate::RoleKind::plan(kind, $crate::roles!(@table tables $($table)?), ground)
                } )* }
            }

            /// Returns the reader of the calls that its element has records of.
            pub fn calls(&self) -> Option<$crate::CallReader> {
                match self { $( Role::$Variant(kind) => $crate::RoleKind::calls(kind), )* }
            }

            /// Returns the link in front of which it splits TCP connections.
            pub fn splits_at(&self) -> Option<&str> {
                match self { $( Role::$Variant(kind) => $crate::RoleKind::splits_at(kind), )* }
            }

            /// Returns the rate that it sends split connections with, if that is fixed.
            pub fn split_rate(&self) -> Option<::bentpipe_units::Rate> {
                match self { $( Role::$Variant(kind) => $crate::RoleKind::split_rate(kind), )* }
            }

            /// Returns `true` if a program of this one stands for it at a real host.
            pub fn has_program(&self) -> bool {
                match self { $( Role::$Variant(_) => <$Config as $crate::RoleKind>::HAS_PROGRAM, )* }
            }

            /// Returns the program that stands for it at a real host.
            ///
            /// # Errors
            /// Returns an error if there is none, or at the key that it cannot follow.
            pub fn program(
                &self,
                tables: &RoleTables,
                at: &$crate::RealAt<'_>,
            ) -> Result<$crate::RealProgram, $crate::Problem> {
                let _ = tables;
                match self { $( Role::$Variant(kind) => {
                    $crate::RoleKind::program(kind, $crate::roles!(@table tables $($table)?), at)
                } )* }
            }

            /// Lists what changes while it runs.
            ///
            /// # Errors
            /// Returns an error if something differs that cannot be changed.
            pub fn change(
                &self,
                after: &Role,
                at: &$crate::RoleHandle,
                to: &mut $crate::Changes,
            ) -> Result<(), $crate::Problem> {
                match (self, after) {
                    $( (Role::$Variant(before), Role::$Variant(after)) => {
                        if before == after { Ok(()) } else { $crate::RoleKind::change(before, after, at, to) }
                    } )*
                    #[allow(unreachable_patterns)]
                    _ => Err($crate::Problem::new(at.key.as_str(), $crate::UNCHANGEABLE)),
                }
            }
        }

        impl RoleTables {
            /// Reports errors of the tables.
            pub fn check(&self, review: &mut $crate::Review<'_>) {
                let _ = review;
                $($( $crate::SharedTable::check(&self.$table, review); )?)*
            }

            /// Copies what ends at nodes of which there are several.
            pub fn spread(&mut self, count: &dyn Fn(&str) -> u32) {
                let _ = count;
                $($( $crate::SharedTable::spread(&mut self.$table, count); )?)*
            }

            /// Sets the limits that an emulation needs and reports them.
            pub fn bound(&mut self, notices: &mut Vec<String>) {
                let _ = notices;
                $($( $crate::SharedTable::bound(&mut self.$table, notices); )?)*
            }
        }
    };
    (@table $tables:ident) => { &() };
    (@table $tables:ident $table:ident) => { &$tables.$table };
}
