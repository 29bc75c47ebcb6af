//! Tests of a file that another process is making at this very moment.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::super::schema::{Whose, create, whose};
use super::{Home, raw};

/// What SQLite is asked when we look whose a file is, in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Objects,
    ApplicationId,
    Version,
}

impl Look {
    /// Which look it is that SQLite prepares.
    fn of(context: &AuthContext<'_>) -> Option<Self> {
        match context.action {
            AuthAction::Read { table_name: "sqlite_master" | "sqlite_schema", .. } => Some(Self::Objects),
            AuthAction::Pragma { pragma_name: "application_id", .. } => Some(Self::ApplicationId),
            AuthAction::Pragma { pragma_name: "user_version", .. } => Some(Self::Version),
            _ => None,
        }
    }
}

/// The other process has the write lock and all tables made, and commits between two looks of ours: just before one of them. Neither
/// journal may let us see some of it.
#[test]
fn a_file_that_is_just_being_made_is_nobodys_or_ours_and_never_another_programs() {
    let mut kept_waiting = 0;
    for journal in ["DELETE", "WAL"] {
        for at in [Look::Objects, Look::ApplicationId, Look::Version] {
            let home = Home::new();
            let other = raw(&home.file());
            other.query_row(&format!("PRAGMA journal_mode = {journal}"), [], |_| Ok(())).expect("the journal");
            other.busy_timeout(std::time::Duration::ZERO).expect("it does not wait");
            other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
            assert!(create(&other).is_ok(), "the tables are made");

            let mut ours = raw(&home.file());
            let other = Arc::new(Mutex::new(other));
            let committed = Arc::new(Mutex::new(None));
            let hook = {
                let (other, committed) = (Arc::clone(&other), Arc::clone(&committed));
                move |context: AuthContext<'_>| {
                    let mut committed = committed.lock();
                    if committed.is_none() && Look::of(&context) == Some(at) {
                        *committed = Some(other.lock().execute_batch("COMMIT").is_ok());
                    }
                    Authorization::Allow
                }
            };
            ours.authorizer(Some(hook)).expect("it is asked before each statement");
            let Ok(found) = whose(&ours) else { panic!("{journal}, {at:?}: taken for another program's") };
            let committed = committed.lock().expect("the other was given its moment");
            kept_waiting += u32::from(!committed);
            if !committed {
                other.lock().execute_batch("COMMIT").expect("we have let go of the file");
            }
            assert!(matches!(found, Whose::Nobody | Whose::Ours));
            assert!(matches!(whose(&ours), Ok(Whose::Ours)), "{journal}, {at:?}: it is made now");
        }
    }
    // A rollback journal has one state only: who reads it keeps who writes it waiting.
    assert!(kept_waiting > 0, "no commit fell between two looks of one moment");
}
