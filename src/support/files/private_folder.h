// A folder that only this user can change.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace heddle::internal {

/// Makes the folder and those above it where they are missing, for this user alone (mode 0700).
/// What is there already stays as it is. Returns 0, or why there is none (an errno).
int make_private_folders(const std::string& path);

/// A file that is closed at the end of the scope.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();
  explicit operator bool() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// An open folder. Its files are named relative to it, so that nobody can put another folder in its
/// place meanwhile. It is refused where others could have written its files: where it is not this
/// user's, where its mode lets group or others write, and where a link of another user leads to it.
class PrivateFolder {
 public:
  /// `make`: whether to make it where it is missing.
  PrivateFolder(const std::string& path, bool make);

  explicit operator bool() const { return static_cast<bool>(folder_); }
  /// Why the folder is refused. Empty where it is open, and where there is none.
  const std::string& refusal() const { return refusal_; }

  /// Opens a file for reading, if it is a regular one and no link.
  File open(const std::string& name) const;
  /// Opens a new file for writing that this user alone can read; none where the name is taken.
  File create(const std::string& name) const;
  /// The contents. Nothing where there is no such file; empty where it is no regular one.
  std::optional<std::string> read(const std::string& name) const;
  /// Writes a file of the name `unfinished` and renames it: the file appears complete. A full disk
  /// or a folder that cannot be written is answered by false.
  bool write(const std::string& name, const std::string& unfinished,
             std::string_view content) const;
  bool rename(const std::string& from, const std::string& to) const;
  /// Gives the file a second name, if that name is free.
  bool link(const std::string& from, const std::string& to) const;
  /// Returns 0, or why it cannot be removed (an errno).
  int remove(const std::string& name) const;
  void mark_as_used(const std::string& name) const;

 private:
  std::string refusal_;
  File folder_;
};

}  // namespace heddle::internal
