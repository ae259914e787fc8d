// Picks on disk: later processes find them, and they are never incomplete or lost.
#include "heddle/runtime/pick_store.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "picks/picks_testing.h"

namespace heddle::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kKey = "00112233445566778899aabbccddeeff";

MultiKernelFacts facts(const std::string& build = "a build", const std::string& machine = "here") {
  return {.name = "double", .target = "llvm test", .machine = machine, .build = build};
}

PickRow row_of(const std::string& key) {
  PickRow row;
  row.kernel = "double";
  row.shapes = "f32[4]";
  row.key = key;
  row.picked = "a";
  row.reason = PickReason::Measured;
  row.variants = {{"a", {1e-3, 2e-3}, {}}, {"b", {}, "it crashed"}};
  row.unix_time = 5;
  return row;
}

TEST(PickStore, KeepsFindsAndForgets) {
  const Folder folder;
  const PickStore store(folder / "not/there/yet");
  EXPECT_FALSE(store.find(kKey));
  EXPECT_THAT(store.all(), IsEmpty());
  EXPECT_FALSE(store.forget(kKey));
  store.remember(row_of(kKey));
  ASSERT_TRUE(store.find(kKey));
  EXPECT_EQ(store.find(kKey)->to_json(), row_of(kKey).to_json());
  EXPECT_EQ(store.find(kKey)->variants[1].dropped, "it crashed");
  EXPECT_EQ(store.all().size(), 1U);
  EXPECT_TRUE(store.forget(kKey));
  EXPECT_FALSE(store.find(kKey));
  EXPECT_EQ(caught([&] { store.find("../etc/passwd"); }).kind, ErrorKind::User);
}

TEST(PickStore, DamagedFilesAreSaidAndCountAsNone) {
  const Folder folder;
  const PickStore store(folder.path());
  for (const char* content : {"", "{", "{\"pick\": 1}", "[]", "{\"pick\": 99}", "\xff\xfe"}) {
    std::ofstream(folder / (std::string(kKey) + ".json")) << content;
    std::string problem;
    EXPECT_FALSE(store.find(kKey, &problem)) << content;
    EXPECT_THAT(problem, HasSubstr(kKey)) << content;
    std::vector<std::string> problems;
    EXPECT_THAT(store.all(&problems), IsEmpty());
    EXPECT_EQ(problems.size(), 1U);
  }
  Doubling d;
  d.seconds = {{"a", 2e-3}, {"b", 1e-3}};
  const std::string key = [&] {
    const MultiKernel k(facts(), {d.variant("a"), d.variant("b")}, d.options(folder.store()));
    EXPECT_EQ(Doubling::wrong(k), "");
    return k.picks()[0].key;
  }();
  std::ofstream(folder / (key + ".json")) << "torn {";
  const MultiKernel k(facts(), {d.variant("a"), d.variant("b")}, d.options(folder.store()));
  EXPECT_EQ(Doubling::wrong(k), "");
  EXPECT_EQ(k.picks()[0].reason, PickReason::Measured);
  EXPECT_THAT(d.messages, ElementsAre(HasSubstr("cannot be read")));
  EXPECT_TRUE(store.find(key)) << "it is whole again";
}

TEST(PickStore, ARememberedPickIsNotMeasuredAgain) {
  const Folder folder;
  Doubling d;
  d.seconds = {{"a", 2e-3}, {"b", 1e-3}};
  const auto make = [&](const MultiKernelFacts& f) {
    return MultiKernel(f, {d.variant("a"), d.variant("b")}, d.options(folder.store()));
  };
  EXPECT_EQ(Doubling::wrong(make(facts())), "");
  const MultiKernel later = make(facts());
  EXPECT_EQ(Doubling::wrong(later), "");
  EXPECT_EQ(d.timed["a"] + d.timed["b"], 0);
  EXPECT_EQ(d.called["a"], 0);
  const PickRow row = later.picks()[0];
  EXPECT_EQ(row.reason, PickReason::Remembered);
  EXPECT_EQ(row.picked, "b");
  EXPECT_NEAR(row.speedup_over_static(), 2, 1e-9) << "the evidence comes along";
  EXPECT_THAT(d.messages, IsEmpty());
}

TEST(PickStore, AnotherBuildOrMachineIsMeasuredAnewAndSaid) {
  const Folder folder;
  Doubling d;
  d.seconds = {{"a", 2e-3}, {"b", 1e-3}};
  const auto make = [&](const MultiKernelFacts& f) {
    return MultiKernel(f, {d.variant("a"), d.variant("b")}, d.options(folder.store()));
  };
  EXPECT_EQ(Doubling::wrong(make(facts())), "");
  d.seconds = {{"a", 1e-3}, {"b", 2e-3}};
  const MultiKernel newer = make(facts("another build"));
  EXPECT_EQ(Doubling::wrong(newer), "");
  EXPECT_EQ(newer.picks()[0].picked, "a");
  EXPECT_THAT(newer.picks()[0].note, HasSubstr("another build, 'a build'"));
  EXPECT_EQ(d.messages.size(), 1U);
  EXPECT_EQ(make(facts("another build")).picks().size(), 0U);
  const MultiKernel moved = make(facts("another build", "there"));
  EXPECT_EQ(Doubling::wrong(moved), "");
  EXPECT_EQ(moved.picks()[0].reason, PickReason::Measured);
  EXPECT_THAT(moved.picks()[0].note, HasSubstr("another machine, 'here'"));
  EXPECT_EQ(folder.store()->all().size(), 1U);
}

TEST(PickStore, TheKeyIsOfCodeTargetAndShapes) {
  Doubling d;
  d.seconds = {{"a", 2e-3}, {"b", 1e-3}};
  std::set<std::string> keys;
  const auto key_of = [&](MultiKernelFacts f, std::vector<KernelVariant> v, int64_t n = 4) {
    const MultiKernel k(std::move(f), std::move(v), d.options());
    EXPECT_EQ(Doubling::wrong(k, {n}), "");
    return k.picks()[0].key;
  };
  const auto variants = [&](int64_t n = 4) {
    return std::vector{d.variant("a", {n}), d.variant("b", {n})};
  };
  keys.insert(key_of(facts(), variants()));
  EXPECT_EQ(keys.size(), 1U);
  keys.insert(key_of(facts("another build", "there"), variants()));
  EXPECT_EQ(keys.size(), 1U) << "build and machine are checked, and not part of it";
  keys.insert(key_of(facts(), variants(5), 5));
  auto changed = variants();
  changed[1].code += " changed";
  keys.insert(key_of(facts(), changed));
  MultiKernelFacts other = facts();
  other.target = "llvm other";
  keys.insert(key_of(other, variants()));
  EXPECT_EQ(keys.size(), 4U);
  changed[1].code = "";
  EXPECT_EQ(key_of(facts(), changed), "") << "unknown code is not remembered";
}

TEST(PickStore, AStoreThatCannotBeWrittenIsSaidAndTheCallWorks) {
  const Folder folder;
  std::ofstream(folder / "file") << "no folder";
  Doubling d;
  d.seconds = {{"a", 2e-3}, {"b", 1e-3}};
  const auto store = std::make_shared<const PickStore>(folder / "file");
  const MultiKernel k(facts(), {d.variant("a"), d.variant("b")}, d.options(store));
  EXPECT_EQ(Doubling::wrong(k), "");
  EXPECT_EQ(k.picks()[0].picked, "b");
  ASSERT_FALSE(d.messages.empty());
  EXPECT_THAT(d.messages[0], HasSubstr("not remembered"));
}

TEST(PickStore, LocksExcludeThreadsAndDistinguishKeys) {
  const Folder folder;
  const PickStore store(folder.path());
  std::optional<PickLock> held = store.lock(kKey, 0);
  ASSERT_TRUE(held);
  EXPECT_FALSE(store.lock(kKey, 0.01));
  EXPECT_TRUE(store.lock("ff", 0));
  held.reset();
  EXPECT_TRUE(store.lock(kKey, 0));
}

TEST(PickStore, WhereItIs) {
  const Variable cache("XDG_CACHE_HOME", "/c");
  {
    const Variable chosen("HEDDLE_PICKS", "/a/b");
    EXPECT_EQ(PickStore::standard_folder(), "/a/b");
  }
  {
    const Variable off("HEDDLE_PICKS", "off");
    EXPECT_EQ(PickStore::standard(), nullptr);
  }
  const Variable any("HEDDLE_PICKS", ""), all("HEDDLE_CACHE", "");
  EXPECT_EQ(PickStore::standard_folder(), "/c/heddle/picks");
}

// ---- processes that are killed
// -------------------------------------------------------------------

// Shapes that are new to the store, the same for all processes at one time.
int64_t fresh_shape(std::mt19937& random) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return 1 + ms / 10 % 5000 + static_cast<int64_t>(random() % 8);
}

// Picks for shapes and logs what it measured: a line "<shape> begun", then, when the pick is in the
// store, "<shape> done".
[[noreturn]] void pick_for_ever(const std::string& folder, const std::string& log, unsigned seed) {
  const int fd = ::open(log.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0666);
  const auto write_line = [&](int64_t n, const char* what) {
    const std::string line = std::to_string(n) + what + "\n";
    [[maybe_unused]] const auto written = ::write(fd, line.data(), line.size());
  };
  Doubling d;
  d.seconds = {{"a", 2e-3}, {"b", 1e-3}};
  std::mt19937 random(seed);
  for (;;) {
    PickOptions o = d.options(std::make_shared<const PickStore>(folder));
    int64_t n = 0;
    bool begun = false;
    o.time_call = [&](const std::string& name, FunctionRef<void()> call) {
      if (!begun) write_line(n, " begun");
      begun = true;
      call();
      return d.seconds.at(name);
    };
    const MultiKernel k(facts(), {d.variant("a", {-1}), d.variant("b", {-1})}, o);
    n = fresh_shape(random);
    if (!Doubling::wrong(k, {n}).empty()) ::_exit(3);
    if (k.picks()[0].picked != "b" || !d.messages.empty()) ::_exit(4);
    if (k.picks()[0].reason == PickReason::Measured) write_line(n, " done");
  }
}

// Fifty kills at random moments among four processes that pick without end.
TEST(PickStore, SurvivesKillsAtAnyMoment) {
  const Folder folder;
  const std::string picks = folder / "picks", log = folder / "log";
  std::mt19937 random(7);
  std::vector<pid_t> children(4, 0);
  unsigned seed = 0;
  const auto start = [&](pid_t& child) {
    ++seed;
    child = ::fork();
    if (child == 0) pick_for_ever(picks, log, seed);
  };
  for (pid_t& child : children) start(child);
  for (int kill = 0; kill < 50; ++kill) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    pid_t& victim = children[random() % children.size()];
    ::kill(victim, SIGKILL);
    int status = 0;
    ::waitpid(victim, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself, " << WEXITSTATUS(status);
    std::vector<std::string> problems;
    PickStore(picks).all(&problems);
    ASSERT_THAT(problems, IsEmpty()) << "a torn file";
    start(victim);
  }
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  // Nothing is measured again once a measurement of it was done.
  std::ifstream lines(log);
  std::set<std::string> done;
  int begun = 0;
  for (std::string shape, what; lines >> shape >> what;) {
    if (what == "begun") {
      ++begun;
      EXPECT_EQ(done.count(shape), 0U) << shape << " was measured again";
    } else {
      EXPECT_TRUE(done.insert(shape).second) << shape << " was done twice";
    }
  }
  EXPECT_GT(done.size(), 20U);
  EXPECT_GT(begun, static_cast<int>(done.size())) << "no kill hit a measurement";
  std::set<std::string> kept;
  for (const PickRow& row : PickStore(picks).all()) {
    EXPECT_EQ(row.picked, "b");
    kept.insert(row.shapes.substr(4, row.shapes.find(']') - 4));
  }
  for (const std::string& shape : done) EXPECT_EQ(kept.count(shape), 1U) << shape << " is lost";
  // A process that was killed within a write leaves at most its temporary file.
  for (const auto& entry : std::filesystem::directory_iterator(picks)) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name == "lock" || name.ends_with(".json") ||
                name.find(".tmp.") != std::string::npos);
  }
}

}  // namespace
}  // namespace heddle::testing
