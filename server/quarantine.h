// Quarantine: what becomes of a data directory whose state was found to differ from the cluster's (server/digest_desk.h).
// The node leaves a note and stops. At its next start the directory's content is put aside, for whoever wants to see
// what happened, and the member begins with nothing: it comes back as a learner and is given the cluster's data.
//
//   <data-dir>/DIVERGED              the note, with the reason
//   <data-dir>/diverged-<n>/         what was put aside
#pragma once

#include <optional>
#include <string>

#include "raft/base/status.h"
#include "storage/fs/file_system.h"

namespace rallypoint::server {

/// Leaves the note; durable when it returns OK.
Status leave_quarantine_note(storage::FileSystem& fs, const std::string& data_dir, const std::string& reason);
/// If there is a note: puts the content aside and returns where it is now. Finishes what a crash left half done.
Result<std::optional<std::string>> put_quarantined_aside(storage::FileSystem& fs, const std::string& data_dir);

}  // namespace rallypoint::server
