#include "support/files/build_id.h"

#include <elf.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "support/files/loaded_file.h"
#include "support/files/this_library.h"
#include "support/hashing/hash.h"

namespace heddle {
namespace {

constexpr std::size_t kNoteAlignment = 4;

std::size_t aligned(std::size_t n) { return (n + kNoteAlignment - 1) & ~(kNoteAlignment - 1); }

// The id among the notes of one segment. A note has a name ("GNU") and bytes.
std::string id_in(const char* notes, std::size_t bytes) {
  std::size_t at = 0;
  while (at + sizeof(ElfW(Nhdr)) <= bytes) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes + at, sizeof head);
    const char* name = notes + at + sizeof head;
    const std::size_t end = at + sizeof head + aligned(head.n_namesz) + aligned(head.n_descsz);
    if (end > bytes) break;
    if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      const char* id = name + aligned(head.n_namesz);
      std::string text;
      for (std::size_t i = 0; i < head.n_descsz; ++i) {
        char hex[3];
        std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned>(id[i]) & 0xff);
        text += hex;
      }
      return text;
    }
    at = end;
  }
  return {};
}

std::string id_of(const dl_phdr_info& file) {
  std::string id;
  for (int i = 0; i < file.dlpi_phnum && id.empty(); ++i) {
    const ElfW(Phdr)& p = file.dlpi_phdr[i];
    if (p.p_type == PT_NOTE)
      id = id_in(reinterpret_cast<const char*>(file.dlpi_addr + p.p_vaddr), p.p_memsz);
  }
  return id;
}

std::string find_id() {
  std::string id;
  internal::visit_loaded_file(reinterpret_cast<std::uintptr_t>(&build_id),
                              [&](const dl_phdr_info& file) { id = id_of(file); });
  if (!id.empty()) return id;
  const std::optional<std::filesystem::path> library = internal::this_library();
  if (!library) return "unknown";
  std::error_code error;
  const std::filesystem::path& file = *library;
  std::uint64_t hash = hash_string(file.string());
  hash = hash_combine(hash, std::filesystem::file_size(file, error));
  hash = hash_combine(
      hash, static_cast<std::uint64_t>(
                std::filesystem::last_write_time(file, error).time_since_epoch().count()));
  return "file" + std::to_string(hash);
}

}  // namespace

const std::string& build_id() {
  static const std::string id = find_id();
  return id;
}

}  // namespace heddle
