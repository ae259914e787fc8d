#include "heddle/runtime/pick_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "heddle/support/disk_cache.h"
#include "heddle/support/error.h"
#include "support/environment.h"
#include "support/files/file.h"
#include "support/files/private_folder.h"
#include "support/hashing/hash.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = "lock";
constexpr const char* kEnding = ".json";

bool is_key(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

// A key becomes the name of a file, and users type it.
void check_key(const std::string& key) {
  if (!is_key(key))
    throw_user_error("'" + key + "' is no key of a pick", {}, "`heddle picks list` shows them");
}

void make_folder(const std::string& folder) {
  // The folder above it may be that of the other caches too, which must be the user's alone.
  const int error = internal::make_private_folders(folder);
  if (error == 0) return;
  throw_runtime_error("cannot make the folder of picks '" + folder + "': " + std::strerror(error),
                      {}, "name another one in HEDDLE_PICKS, or set it to off");
}

// Whether a file is no pick of any version. One that cannot be read now, or that a newer Heddle
// wrote, may be a good one.
bool is_damaged(const std::string& path) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error&) {
    return false;
  }
  try {
    const Json json = Json::parse(text);
    if (json.at("pick").as_int() <= PickRow::kVersion) PickRow::from_json(json);
  } catch (const Error&) {
    return true;
  }
  return false;
}

}  // namespace

PickLock::~PickLock() {
  if (fd_ >= 0) ::close(fd_);  // closing releases the lock
}

PickStore::PickStore(std::string folder) : folder_(std::move(folder)) {}

std::string PickStore::standard_folder() {
  const std::string chosen = internal::environment_value("HEDDLE_PICKS");
  if (chosen == "off") return {};
  return chosen.empty() ? cache_folder("picks") : chosen;
}

std::shared_ptr<const PickStore> PickStore::standard() {
  std::string folder = standard_folder();
  return folder.empty() ? nullptr : std::make_shared<const PickStore>(std::move(folder));
}

std::string PickStore::path_of(const std::string& key) const {
  check_key(key);
  return (fs::path(folder_) / (key + kEnding)).string();
}

std::optional<PickRow> PickStore::find(const std::string& key, std::string* problem) const {
  const std::string path = path_of(key);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  try {
    PickRow row = PickRow::from_json(Json::parse(read_file(path)));
    if (row.key == key) return row;
    if (problem != nullptr) *problem = path + ": the pick is of another key, '" + row.key + "'";
  } catch (const Error& e) {
    // Another process may have removed the entry between the two tests.
    if (problem != nullptr && fs::exists(path, error)) *problem = path + ": " + e.message;
  }
  return std::nullopt;
}

// Removes files that a killed writer of this key left behind. The caller holds the lock of the key,
// so no writer is active.
void PickStore::remove_left_overs(const std::string& key) const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().filename().string().starts_with(key + kEnding + ".tmp.")) {
      fs::remove(entry.path(), error);
    }
  }
}

void PickStore::remember(const PickRow& row) const {
  const std::string path = path_of(row.key);
  make_folder(folder_);
  write_file_atomic(path, row.to_json().dump(1) + "\n");
}

bool PickStore::forget(const std::string& key) const {
  std::error_code error;
  const bool there = fs::remove(path_of(key), error);
  if (error) {
    throw_runtime_error("cannot remove '" + path_of(key) + "': " + error.message());
  }
  return there;
}

int PickStore::forget_damaged() const {
  int removed = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string key = entry.path().stem().string();
    if (entry.path().extension() != kEnding || !is_key(key)) continue;
    if (is_damaged(entry.path().string()) && forget(key)) ++removed;
  }
  return removed;
}

std::vector<PickRow> PickStore::all(std::vector<std::string>* problems) const {
  std::vector<PickRow> rows;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const fs::path& path = entry.path();
    if (path.extension() != kEnding) continue;
    std::string problem;
    try {
      if (std::optional<PickRow> row = find(path.stem().string(), &problem)) {
        rows.push_back(std::move(*row));
      }
    } catch (const Error& e) {
      problem = path.string() + ": " + e.message;
    }
    if (problems != nullptr && !problem.empty()) problems->push_back(problem);
  }
  std::sort(rows.begin(), rows.end(), [](const PickRow& a, const PickRow& b) {
    return a.unix_time != b.unix_time ? a.unix_time > b.unix_time : a.key < b.key;
  });
  return rows;
}

// Locks one byte of one file by an open file description lock (fcntl, F_OFD_SETLK). Such locks
// exclude threads too, and no file for each key remains.
std::optional<PickLock> PickStore::lock(const std::string& key, double seconds) const {
  check_key(key);
  make_folder(folder_);
  const std::string path = (fs::path(folder_) / kLockFile).string();
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) {
    throw_runtime_error("cannot open '" + path + "': " + std::strerror(errno), {},
                        "name another folder in HEDDLE_PICKS, or set it to off");
  }
  PickLock held(fd);
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start =
      static_cast<off_t>(hash_string(key) >> 2);  // a lock may lie beyond the end of the file
  range.l_len = 1;
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  auto pause = std::chrono::milliseconds(1);
  while (::fcntl(fd, F_OFD_SETLK, &range) != 0) {
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
      throw_runtime_error("cannot lock '" + path + "': " + std::strerror(errno), {},
                          "name a folder of a file system with locks in HEDDLE_PICKS");
    }
    if (std::chrono::duration<double>(Clock::now() - begin).count() >= seconds) return std::nullopt;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(50));
  }
  remove_left_overs(key);
  return held;
}

}  // namespace heddle
