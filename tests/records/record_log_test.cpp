// The log on disk: what is read back, wherever its writer was stopped.
#include "heddle/records/record_log.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <set>
#include <thread>

#include "records/records_testing.h"

namespace heddle::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Record sample(uint64_t seed = 0) {
  static const Record made = record_of(matmul(8, 8, 8), test_target());
  Record r = made;
  r.seed = seed;
  return r;
}

std::vector<uint64_t> seeds(const ReadResult& read) {
  std::vector<uint64_t> out;
  for (const Record& r : read.records) out.push_back(r.seed);
  return out;
}

TEST(RecordLog, AppendsAndReads) {
  const Folder folder;
  const std::string path = folder / "deep/er/log.jsonl";
  {
    RecordLog log(path);
    EXPECT_EQ(log.path(), path);
    log.append(sample(1));
  }
  RecordLog(path).append(failed(sample(2), MeasureError::Timeout));
  const ReadResult read = read_records(path);
  EXPECT_THAT(read.problems, IsEmpty());
  EXPECT_THAT(seeds(read), ElementsAre(1, 2));
  EXPECT_EQ(read.records[1].error, MeasureError::Timeout);
  EXPECT_EQ(read.records[1].origin, path + ":2");
  EXPECT_EQ(to_lines(read.records), read_file(path));
}

TEST(RecordLog, AMissingFileAndAMissingFolderAreErrors) {
  const Folder folder;
  EXPECT_THAT(error_of([&] { read_records(folder / "none.jsonl"); }), StartsWith("RUNTIME cannot"));
  write(folder / "file", "");
  EXPECT_THAT(error_of([&] { RecordLog log(folder / "file/log.jsonl"); }),
              HasSubstr("cannot append to the record log"));
  EXPECT_THAT(error_of([&] { RecordLog log(folder.path()); }), HasSubstr("directory"));
}

// Killed after any number of bytes of the last record: all others are read, the next writer closes
// the torn line off and loses nothing.
TEST(RecordLog, ATornLastLineAtEveryByte) {
  const Folder folder;
  const std::string path = folder / "log.jsonl";
  const std::string first = to_lines({sample(1)}), last = to_lines({sample(2)});
  for (size_t cut = 0; cut <= last.size(); ++cut) {
    write(path, first + last.substr(0, cut));
    const bool complete = cut + 1 >= last.size();  // with or without its newline
    ReadResult read = read_records(path);
    ASSERT_EQ(read.records.size(), complete ? 2u : 1u) << cut;
    if (complete || cut == 0) {
      ASSERT_THAT(read.problems, IsEmpty()) << cut;
    } else {
      ASSERT_THAT(read.problems, ElementsAre(path + ":2: torn last line skipped")) << cut;
    }
    RecordLog(path).append(sample(3));
    read = read_records(path);
    ASSERT_EQ(seeds(read),
              complete ? (std::vector<uint64_t>{1, 2, 3}) : (std::vector<uint64_t>{1, 3}))
        << cut;
    ASSERT_EQ(read.problems.size(), complete || cut == 0 ? 0u : 1u) << cut;
  }
}

TEST(RecordLog, BrokenLinesAreSkippedAndReported) {
  const Folder folder;
  const std::string path = folder / "log.jsonl", line = to_lines({sample(1)});
  write(path, line + "{\"v\": 1,, }\n" + "\n" + "{\"v\": 1}\n" + std::string(3, '\0') + "\n" +
                  "[1]\n" + line);
  const ReadResult read = read_records(path);
  EXPECT_THAT(seeds(read), ElementsAre(1, 1));
  EXPECT_EQ(read.records[1].origin, path + ":7");
  ASSERT_EQ(read.problems.size(), 4u);
  EXPECT_THAT(read.problems[0], StartsWith(path + ":2: column 9: syntax error"));
  EXPECT_EQ(read.problems[1], path + ":4: key 'hash' is missing");
  EXPECT_THAT(read.problems[2], StartsWith(path + ":5: column 1"));
  EXPECT_EQ(read.problems[3], path + ":6: a record is a JSON object");
}

TEST(RecordLog, AProblemQuotesLittleOfWhatIsWrong) {
  const Folder folder;
  const std::string path = folder / "log.jsonl", line = to_lines({sample(1)});
  Json huge = sample(1).to_json();
  huge["hash"] = Json(std::string(1'000'000, 'f'));
  Json unknown = sample(1).to_json();
  unknown["error"] = Json(std::string(1'000'000, 'e'));
  write(path, huge.dump() + "\n" + unknown.dump() + "\n" + line);
  const ReadResult read = read_records(path);
  EXPECT_EQ(read.records.size(), 1u);
  ASSERT_EQ(read.problems.size(), 2u);
  EXPECT_THAT(read.problems[0], StartsWith(path + ":1: key 'hash': 'fff"));
  for (const std::string& problem : read.problems) EXPECT_LT(problem.size(), path.size() + 300);
}

TEST(RecordLog, LinesThatEndAsOnWindowsAreRead) {
  const Folder folder;
  std::string line = to_lines({sample(1)});
  line.insert(line.size() - 1, "\r");
  write(folder / "log.jsonl", line);
  EXPECT_THAT(seeds(read_records(folder / "log.jsonl")), ElementsAre(1));
}

TEST(RecordLog, AFullDiskIsAnErrorThatNamesTheFile) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  RecordLog log("/dev/full");
  const std::string why = error_of([&] { log.append(sample()); });
  EXPECT_THAT(why, StartsWith("RUNTIME cannot append to the record log '/dev/full': "));
  EXPECT_THAT(why, HasSubstr("No space left"));
}

// The disk fills within a record: what was written of it is taken back.
TEST(RecordLog, APartOfARecordIsTakenBack) {
  const Folder folder;
  const std::string path = folder / "log.jsonl", line = to_lines({sample(1)});
  RecordLog log(path);
  log.append(sample(1));
  struct rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  std::string part, none;
  for (const auto& [room, why] : {std::pair(line.size() / 2, &part), std::pair(size_t{0}, &none)}) {
    struct rlimit limit = old;
    limit.rlim_cur = line.size() + room;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    *why = error_of([&] { log.append(sample(2)); });
    ::setrlimit(RLIMIT_FSIZE, &old);
    EXPECT_EQ(read_file(path), line);
  }
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(part, HasSubstr("only " + std::to_string(line.size() / 2) + " of " +
                              std::to_string(line.size()) + " bytes were taken"));
  EXPECT_THAT(none, HasSubstr("File too large"));
  log.append(sample(3));
  EXPECT_THAT(seeds(read_records(path)), ElementsAre(1, 3));
}

TEST(RecordLog, AWriterFollowsAFileThatWasReplaced) {
  const Folder folder;
  const std::string path = folder / "log.jsonl";
  RecordLog log(path);
  log.append(sample(1));
  std::thread writer;
  {
    const RecordLogLock lock(path);
    writer = std::thread([&] { log.append(sample(2)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_THAT(seeds(read_records(path)), ElementsAre(1));  // it waits
    write_file_atomic(path, to_lines({sample(7)}));
  }
  writer.join();
  EXPECT_THAT(seeds(read_records(path)), ElementsAre(7, 2));
  ::unlink(path.c_str());
  log.append(sample(3));
  EXPECT_THAT(seeds(read_records(path)), ElementsAre(3));
}

TEST(RecordLog, ThreadsMayShareOne) {
  const Folder folder;
  RecordLog log(folder / "log.jsonl");
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 50; ++i) log.append(sample(t * 50 + i));
    });
  }
  for (std::thread& t : threads) t.join();
  const ReadResult read = read_records(log.path());
  EXPECT_THAT(read.problems, IsEmpty());
  const std::vector<uint64_t> all = seeds(read);
  EXPECT_EQ(std::set<uint64_t>(all.begin(), all.end()).size(), 200u);
}

}  // namespace
}  // namespace heddle::testing
