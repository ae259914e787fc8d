// heddle cache: lists and clears what earlier processes left on the disk for later ones.
#include <chrono>
#include <iostream>
#include <set>

#include "commands.h"
#include "heddle/codegen/cuda.h"
#include "heddle/codegen/llvm.h"
#include "heddle/support/disk_cache.h"
#include "runtime/kernel/weights_cache.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

struct Row {
  std::string kind;
  DiskCache cache;
};

std::vector<Row> all_caches() {
  return {{"code", disk_code_cache()},
          {"cubin", disk_cubin_cache()},
          {"weights", disk_weights_cache()}};
}

std::string megabytes(std::uintmax_t bytes) {
  return format_fixed(static_cast<double>(bytes) / (1 << 20), 1) + " MiB";
}

std::string age(std::filesystem::file_time_type used) {
  const auto since = std::filesystem::file_time_type::clock::now() - used;
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(since).count();
  if (minutes < 120) return std::to_string(minutes) + " min ago";
  if (minutes < 48 * 60) return std::to_string(minutes / 60) + " h ago";
  return std::to_string(minutes / 60 / 24) + " days ago";
}

}  // namespace

int list_caches(const Request& /*request*/) {
  Table table({"cache", "files", "size", "limit", "last used", "folder"});
  table.align_left(5);
  std::set<std::string> refusals;  // one folder may be above several caches
  for (const Row& row : all_caches()) {
    if (row.cache.folder().empty()) {
      table.add_row({row.kind, "", "", "", "", "turned off"});
      continue;
    }
    if (const std::string refusal = row.cache.refusal(); !refusal.empty()) {
      table.add_row({row.kind, "", "", "", "", row.cache.folder() + " (not used)"});
      refusals.insert(refusal);
      continue;
    }
    const std::vector<DiskCache::Entry> entries = row.cache.entries();
    std::uintmax_t bytes = 0;
    for (const DiskCache::Entry& e : entries) bytes += e.bytes;
    table.add_row({row.kind, std::to_string(entries.size()), megabytes(bytes),
                   megabytes(row.cache.limit_bytes()),
                   entries.empty() ? "" : age(entries.back().used), row.cache.folder()});
  }
  std::cout << table.to_string();
  for (const std::string& refusal : refusals) std::cout << refusal << "\n";
  return 0;
}

int clear_caches(const Request& /*request*/) {
  for (const Row& row : all_caches()) {
    if (row.cache.folder().empty()) continue;
    const int files = row.cache.clear();
    std::cout << row.kind << ": " << files << (files == 1 ? " file" : " files") << " removed from "
              << row.cache.folder() << "\n";
  }
  return 0;
}

}  // namespace heddle::cli
