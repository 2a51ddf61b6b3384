//! Table of stages: one row a kind.

/// Declares the struct of all stages of a direction. Their types implement [`Stage`](crate::Stage).
///
/// A row is a doc comment, the key in files, the last part of the element's path, and the type. Rows are appended, never
/// sorted: packets meet the last row first, and the place of a row is a part of results.
#[macro_export]
macro_rules! stages {
    ($( $(#[$meta:meta])* $key:ident $name:literal $Config:ty; )*) => {
        /// Stages in front of a direction's medium.
        #[derive(
            Clone, Debug, Default, PartialEq, ::serde::Serialize,
            ::serde::Deserialize, ::schemars::JsonSchema,
        )]
        pub struct Stages {
            $(
                $(#[$meta])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $key: Option<$Config>,
            )*
        }

        impl Stages {
            /// Rows of the table.
            pub const ROWS: &[$crate::StageRow] =
                &[$( $crate::StageRow { key: stringify!($key), name: $name } ),*];

            /// Returns the stages by row.
            pub fn by_row(&self) -> $crate::ByRow<'_> {
                let stages: Vec<Option<&dyn $crate::Stage>> =
                    vec![$( self.$key.as_ref().map(|stage| stage as &dyn $crate::Stage) ),*];
                Stages::ROWS.iter().copied().zip(stages).collect()
            }

            /// Returns the stages with those of the link in place of missing ones.
            #[must_use]
            pub fn or(&self, link: &Stages) -> Stages {
                Stages { $( $key: self.$key.clone().or_else(|| link.$key.clone()), )* }
            }

            /// Returns `true` for each row whose stage is the same in both.
            pub fn same(&self, other: &Stages) -> Vec<bool> {
                vec![$( self.$key == other.$key ),*]
            }
        }
    };
}
