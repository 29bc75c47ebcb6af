//! Owns the one table of op types. The log itself treats them as opaque numbers.

use std::fmt;

macro_rules! op_types {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// What one entry of the log does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum OpType {
            $($(#[$doc])* $variant = $number,)*
        }

        impl OpType {
            /// All of them, in order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name as the RFCs write it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The number on disk and wire.
            #[must_use]
            pub const fn number(self) -> u8 {
                self as u8
            }
        }

        impl TryFrom<u8> for OpType {
            type Error = UnknownOpType;

            fn try_from(number: u8) -> Result<Self, UnknownOpType> {
                match number {
                    $($number => Ok(Self::$variant),)*
                    _ => Err(UnknownOpType { number }),
                }
            }
        }
    };
}

op_types! {
    /// The full state of an object after its put ended.
    PutEnd = 1, "PUT_END";
    /// A put was taken back.
    PutRevoke = 2, "PUT_REVOKE";
    /// An object was removed.
    Remove = 3, "REMOVE";
    /// Read as nothing, never written.
    LeaseRenew = 4, "LEASE_RENEW";
    /// A segment joined.
    SegmentMount = 5, "SEGMENT_MOUNT";
    /// A segment left.
    SegmentUnmount = 6, "SEGMENT_UNMOUNT";
    /// A segment changed.
    SegmentUpdate = 7, "SEGMENT_UPDATE";
    /// A holder executed a delete task.
    LocalDeleteAck = 8, "LOCAL_DELETE_ACK";
    /// A storage was mounted.
    StorageMount = 9, "STORAGE_MOUNT";
    /// A storage was retired for ever.
    StorageRetire = 10, "STORAGE_RETIRE";
    /// An extent was opened for use.
    ExtentOpen = 11, "EXTENT_OPEN";
    /// A tenant's or the cluster's policy.
    Policy = 12, "POLICY";
}

/// A number that names no op type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("op type {number} is unknown; the known ones are 1 to 12")]
pub struct UnknownOpType {
    /// The number found.
    pub number: u8,
}

impl fmt::Display for OpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{OpType, UnknownOpType};

    #[test]
    fn the_numbers_are_the_rfcs_and_have_no_hole() {
        let numbers: Vec<u8> = OpType::ALL.iter().map(|op| op.number()).collect();
        assert_eq!(numbers, (1..=12).collect::<Vec<u8>>());
        for op in OpType::ALL {
            assert_eq!(OpType::try_from(op.number()), Ok(*op));
        }
        let (put_end, remove, ack) = (OpType::PutEnd, OpType::Remove, OpType::LocalDeleteAck);
        assert_eq!((put_end.number(), remove.number(), ack.number()), (1, 3, 8));
        assert_eq!(OpType::SegmentMount.to_string(), "SEGMENT_MOUNT");
    }

    #[test]
    fn every_other_number_is_refused_by_name() {
        for number in std::iter::once(0).chain(13..=255) {
            assert_eq!(OpType::try_from(number), Err(UnknownOpType { number }));
        }
    }
}
