#include "common/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "heddle/support/error.h"

namespace heddle::cli {

namespace fs = std::filesystem;

namespace {

/// A file's name has at most 255 bytes. Files are written under a longer name first.
constexpr size_t kLongestName = 200;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw_user_error("cannot write '" + path + "': " + why, {},
                   "name a file in a folder that is there and can be written in");
}

}  // namespace

void check_writable(const std::string& path) {
  const fs::path file(path);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code ignored;
  std::string wrong;
  if (fs::is_directory(file, ignored)) {
    wrong = "it is a folder";
  } else if (!fs::is_directory(folder, ignored)) {
    wrong = "there is no folder " + folder.string();
  } else if (::access(folder.c_str(), W_OK) != 0) {
    wrong = "no files can be made in " + folder.string();
  }
  if (file.filename().string().size() > kLongestName)
    wrong = "its name has more than " + std::to_string(kLongestName) + " characters";
  if (!wrong.empty()) refuse(path, wrong);
}

std::string shell_word(const std::string& path) {
  const std::string plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+/:=,@%";
  if (path.find_first_not_of(plain) == std::string::npos) return path;
  std::string word = "'";
  for (const char c : path) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string identifier_of(const std::string& path) {
  std::string name = fs::path(path).stem().string();
  for (char& c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9')) c = '_';
  }
  const bool begins_well = !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0;
  return begins_well ? name : "model_" + name;
}

LogFile::LogFile(const std::string& path) : path_(path) {
  check_writable(path);
  const int old = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  const int log = old >= 0 || errno != ENOENT
                      ? old
                      : ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (log < 0) refuse(path, std::strerror(errno));
  is_new_ = old < 0;
  ::close(log);
}

LogFile::~LogFile() {
  std::error_code ignored;
  if (is_new_ && fs::is_empty(path_, ignored)) fs::remove(path_, ignored);
}

}  // namespace heddle::cli
