#include "support/files/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace heddle::internal {
namespace {

std::string mode_text(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "0%03o", static_cast<unsigned>(mode & 0777));
  return text;
}

/// Opens the folder itself, or the one that a link of this user leads to.
File open_folder(const std::string& path, bool make, std::string& refusal) {
  if (make) make_private_folders(path);
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode) &&
      status.st_uid != ::geteuid()) {
    refusal = "it is a link of another user";
    return File(-1);
  }
  File folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fstat(folder.get(), &status) != 0) return File(-1);
  if (status.st_uid != ::geteuid()) {
    refusal = "it belongs to another user";
  } else if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    refusal = "other users can write to it (mode " + mode_text(status.st_mode) + ")";
  }
  return refusal.empty() ? std::move(folder) : File(-1);
}

}  // namespace

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int make_private_folders(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    ::mkdir(path.substr(0, at).c_str(), 0700);
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

PrivateFolder::PrivateFolder(const std::string& path, bool make)
    : folder_(open_folder(path, make, refusal_)) {}

File PrivateFolder::open(const std::string& name) const {
  // Without O_NONBLOCK the call would wait for a writer of a pipe.
  File file(::openat(folder_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status{};
  if (!file || (::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode))) return file;
  errno = EINVAL;
  return File(-1);
}

File PrivateFolder::create(const std::string& name) const {
  return File(::openat(folder_.get(), name.c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
}

std::optional<std::string> PrivateFolder::read(const std::string& name) const {
  const File file = open(name);
  if (!file) return errno == ENOENT ? std::nullopt : std::optional<std::string>(std::string());
  std::string content;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::string();
    if (n == 0) return content;
    content.append(buffer, static_cast<std::size_t>(n));
  }
}

bool PrivateFolder::write(const std::string& name, const std::string& unfinished,
                          std::string_view content) const {
  bool complete = false;
  {
    const File file = create(unfinished);
    if (!file) return false;
    while (!content.empty()) {
      const ssize_t n = ::write(file.get(), content.data(), content.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) break;
      content.remove_prefix(static_cast<std::size_t>(n));
    }
    complete = content.empty();
  }
  if (complete && rename(unfinished, name)) return true;
  remove(unfinished);
  return false;
}

bool PrivateFolder::rename(const std::string& from, const std::string& to) const {
  return ::renameat(folder_.get(), from.c_str(), folder_.get(), to.c_str()) == 0;
}

bool PrivateFolder::link(const std::string& from, const std::string& to) const {
  return ::linkat(folder_.get(), from.c_str(), folder_.get(), to.c_str(), 0) == 0;
}

int PrivateFolder::remove(const std::string& name) const {
  return ::unlinkat(folder_.get(), name.c_str(), 0) == 0 ? 0 : errno;
}

void PrivateFolder::mark_as_used(const std::string& name) const {
  ::utimensat(folder_.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

}  // namespace heddle::internal
