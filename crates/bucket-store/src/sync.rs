//! Owns the one switch between what production runs on and what the schedule checker runs on (`--cfg oplog_schedules`): locks and
//! atomics of the store come from here. It holds no logic of the store; `real` renames nothing and wraps nothing, so production pays
//! nothing for it.

#[cfg(oplog_schedules)]
mod checked;
#[cfg(not(oplog_schedules))]
mod real;

#[cfg(oplog_schedules)]
pub(crate) use self::checked::*;
#[cfg(not(oplog_schedules))]
pub(crate) use self::real::*;
