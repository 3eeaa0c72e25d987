// Any bytes as a log: opening must give a log or a Status, never crash, and what it gives must be stable:
// opened once more, it says the same. The first byte chooses the disguise, since random bytes seldom have a
// right checksum:
//   even   the bytes are the segment file as they are
//   odd    the bytes are records, put into sound frames behind a sound segment record
#include <cstdint>
#include <string>

#include "raft/base/check.h"
#include "raft/base/crc32c.h"
#include "storage/fs/memory_file_system.h"
#include "storage/wal/wal.h"

namespace {

using namespace rallypoint;           // NOLINT
using namespace rallypoint::storage;  // NOLINT

constexpr DirectoryId kDirectory{7};

class FramedFile {
 public:
  void add(std::string body) {
    body.resize(padded(body.size()));
    FrameHead head;
    head.body_bytes = static_cast<uint32_t>(body.size());
    head.body_crc = chain_ = crc32c(chain_, body);
    head.offset = static_cast<uint32_t>(data_.size());
    char encoded[kFrameHeadBytes];
    encode_frame_head(head, data_.empty() ? 0 : segment_salt(kDirectory, 1), encoded);
    data_.append(encoded, sizeof encoded);
    data_ += body;
  }
  [[nodiscard]] const std::string& data() const { return data_; }

 private:
  std::string data_;
  uint32_t chain_ = 0;
};

std::string disguise(std::string_view bytes) {
  FramedFile file;
  SegmentRecord first;
  first.directory = kDirectory;
  first.number = 1;
  std::string record;
  encode_record(first, record);
  file.add(record);
  while (!bytes.empty()) {
    const size_t count = std::min<size_t>(bytes.size(), 1 + static_cast<uint8_t>(bytes[0]));
    file.add(std::string(bytes.substr(0, count)));
    bytes.remove_prefix(count);
  }
  return file.data();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  MemoryFileSystem files;
  RALLY_CHECK(files.create_directories("wal").is_ok());
  files.set_contents("wal/" + segment_name(1), bytes[0] % 2 == 0 ? std::string(rest) : disguise(rest));
  auto opened = Wal::open(files, "wal", kDirectory);
  if (!opened.is_ok()) return 0;
  auto again = Wal::open(files, "wal", kDirectory);
  RALLY_CHECK(again.is_ok(), "status", again.status());
  RALLY_CHECK(again->entries == opened->entries && again->hard_state == opened->hard_state);
  RALLY_CHECK(again->start == opened->start && !again->torn_tail_repaired);
  return 0;
}
