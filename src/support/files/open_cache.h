// The folder of a DiskCache while it is used, and the key that seals its files.
#pragma once

#include <memory>
#include <string>

#include "support/files/private_folder.h"
#include "support/hashing/siphash.h"

namespace heddle::internal {

/// The hash that a file of this key and name begins with covers its name and its contents. The key
/// is random, and only its user can read it. So a file that was written by someone else, or under
/// another name, is not taken.
class OpenCache {
 public:
  OpenCache(PrivateFolder folder, const Bits128& key) : folder_(std::move(folder)), key_(key) {}

  const PrivateFolder& folder() const { return folder_; }
  const Bits128& key() const { return key_; }
  /// A hash under the key that contains the name. The contents are to be added.
  SipHash128 seal(const std::string& name) const;
  /// A name for a file that is being written, which no other thread or process uses. It ends in
  /// `extension`, so that a sweep removes what a killed process left.
  static std::string unfinished(const std::string& key, const std::string& extension);

 private:
  PrivateFolder folder_;
  Bits128 key_;
};

/// A folder of files, and the folder of the key that seals them, which may be the same.
struct SealedPlace {
  std::string folder, key_folder;
};

/// Opens the cache. Null where there is none, or it cannot be trusted; `refusal` then says why,
/// with a remedy. `make`: whether to make the folder and the key where they are missing.
std::shared_ptr<const OpenCache> open_cache(const SealedPlace& place, bool make,
                                            std::string& refusal);

}  // namespace heddle::internal
