// How close the log comes to the disk: CPU per entry, and syncs per second against a bare loop of pwrite and
// fdatasync over a pre-written file on the same disk, turn about so that both meet the same neighbours.
//
//   wal_bench [directory] [rounds]        prints one table; the directory must be on the disk in question
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "raft/base/check.h"
#include "storage/fs/posix_file_system.h"
#include "storage/wal/wal.h"

namespace {

using namespace rallypoint;           // NOLINT
using namespace rallypoint::storage;  // NOLINT
using Clock = std::chrono::steady_clock;

constexpr size_t kPayloadBytes = 300;
constexpr size_t kBatch = 256;
constexpr int kSyncsPerTurn = 40;

double cpu_us() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto us = [](const timeval& time) { return static_cast<double>(time.tv_sec) * 1e6 + time.tv_usec; };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

double user_cpu_us() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) * 1e6 + usage.ru_utime.tv_usec;
}

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

raft::Write batch_at(uint64_t first, size_t count) {
  raft::Write write;
  for (size_t i = 0; i < count; ++i) {
    write.entries.push_back(
        {Term(1), Index(first + i), raft::EntryKind::kCommand, Bytes(std::string(kPayloadBytes, 'p'))});
  }
  return write;
}

/// The bare loop: as many bytes per sync as the log writes for the batch.
class BareFile {
 public:
  BareFile(const std::string& path, size_t bytes) : size_(bytes) {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    RALLY_CHECK(descriptor_ >= 0, "path", path);
    const std::string zeros(1 << 20, '\0');
    for (size_t at = 0; at < bytes; at += zeros.size()) write(zeros, at);
    RALLY_CHECK(::fsync(descriptor_) == 0);
  }
  ~BareFile() { ::close(descriptor_); }
  void append_and_sync(const std::string& data) {
    if (end_ + data.size() > size_) end_ = 0;
    write(data, end_);
    end_ += data.size();
    RALLY_CHECK(::fdatasync(descriptor_) == 0);
  }

 private:
  void write(const std::string& data, size_t at) {
    RALLY_CHECK(::pwrite(descriptor_, data.data(), data.size(), static_cast<off_t>(at)) ==
                static_cast<ssize_t>(data.size()));
  }
  int descriptor_;
  size_t size_;
  size_t end_ = 0;
};

void prepare(Wal& wal) {
  for (auto more = wal.prepare_next(); more.is_ok() && *more; more = wal.prepare_next()) {
  }
}

void bench_cpu(FileSystem& files, const std::string& directory) {
  auto log = std::move(Wal::create(files, directory + "/cpu", DirectoryId(1))).value();
  prepare(*log.wal);
  constexpr int kBatches = 400;
  double user = 0;
  double all = 0;
  for (int i = 0; i < kBatches; ++i) {
    const std::vector<raft::Write> write{batch_at(1 + i * kBatch, kBatch)};
    const double user_before = user_cpu_us();
    const double all_before = cpu_us();
    RALLY_CHECK(log.wal->append(write).is_ok());
    user += user_cpu_us() - user_before;
    all += cpu_us() - all_before;
    if (log.wal->unsynced_bytes() > (4 << 20)) {
      RALLY_CHECK(log.wal->sync().is_ok());
      prepare(*log.wal);
    }
  }
  const double entries = static_cast<double>(kBatches) * kBatch;
  std::printf("append, batches of %zu x %zu B: %.3f us CPU per entry in all, %.3f of it outside the kernel\n",
              kBatch, kPayloadBytes, all / entries, user / entries);
}

void bench_sync(FileSystem& files, const std::string& directory, size_t batch, int rounds) {
  const std::string wal_directory = directory + "/sync-" + std::to_string(batch);
  auto log = std::move(Wal::create(files, wal_directory, DirectoryId(1))).value();
  prepare(*log.wal);
  BareFile bare(wal_directory + "/bare", 16 << 20);
  const std::string data(kFrameHeadBytes + batch * entry_record_bytes(kPayloadBytes), 'b');
  uint64_t next = 1;
  const auto wal_turn = [&] {
    double us = 0;
    for (int i = 0; i < kSyncsPerTurn; ++i, next += batch) {
      const std::vector<raft::Write> write{batch_at(next, batch)};  // as warm as it comes from the network
      const auto start = Clock::now();
      RALLY_CHECK(log.wal->append(write).is_ok());
      RALLY_CHECK(log.wal->sync().is_ok());
      us += us_since(start);
    }
    return us / kSyncsPerTurn;
  };
  const auto bare_turn = [&] {
    const auto start = Clock::now();
    for (int i = 0; i < kSyncsPerTurn; ++i) bare.append_and_sync(data);
    return us_since(start) / kSyncsPerTurn;
  };
  wal_turn();  // out of the small first segment
  std::vector<double> wal_us;
  std::vector<double> bare_us;
  for (int round = 0; round < rounds; ++round) {
    if (round % 2 == 0) {
      wal_us.push_back(wal_turn());
      bare_us.push_back(bare_turn());
    } else {
      bare_us.push_back(bare_turn());
      wal_us.push_back(wal_turn());
    }
    prepare(*log.wal);
  }
  const double ours = median(wal_us);
  const double theirs = median(bare_us);
  std::printf("%7zu %9zu %14.0f %14.0f %12.1f %12.1f %8.2f\n", batch, data.size(), 1e6 / ours, 1e6 / theirs,
              ours, theirs, ours / theirs);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string parent = argc > 1 ? argv[1] : std::filesystem::temp_directory_path().string();
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 25;
  std::string directory = parent + "/wal-bench-XXXXXX";
  RALLY_CHECK(mkdtemp(directory.data()) != nullptr, "parent", parent);
  PosixFileSystem files;

  const auto start = Clock::now();
  { auto log = std::move(Wal::create(files, directory + "/start", DirectoryId(1))).value(); }
  std::printf("create an empty log: %.1f ms\n", us_since(start) / 1000);
  bench_cpu(files, directory);
  std::printf("\n%7s %9s %14s %14s %12s %12s %8s\n", "entries", "bytes", "log syncs/s", "bare syncs/s",
              "log us", "bare us", "ratio");
  for (const size_t batch : {1, 16, 256}) bench_sync(files, directory, batch, rounds);
  RALLY_CHECK(files.remove_all(directory).is_ok());
  return 0;
}
