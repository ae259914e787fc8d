// heddle picks: lists the variants that multi-kernels picked, from the store on the disk.
#include <algorithm>
#include <iostream>

#include "commands.h"
#include "common/figures.h"
#include "heddle/driver/build_multi.h"
#include "heddle/support/error.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

constexpr size_t kShownKey = 8;

/// Why a pick is not valid on this machine; "" where it is.
std::string stale_text(const PickRow& row) {
  const PickOrigin here = pick_origin();
  if (row.machine != here.machine) return "another machine";
  if (row.build != here.build) return "another build";
  return "";
}

PickStore store_of(const Request& o) {
  const std::string folder = o.store.empty() ? PickStore::standard_folder() : o.store;
  if (folder.empty()) {
    throw_user_error("there is no store of picks: it is turned off, or the user has no home", {},
                     "name a folder with --store, or in HEDDLE_PICKS");
  }
  return PickStore(folder);
}

std::vector<PickRow> rows_of(const PickStore& store) {
  std::vector<std::string> problems;
  std::vector<PickRow> rows = store.all(&problems);
  for (const std::string& problem : problems) std::cerr << "warning: " << problem << "\n";
  return rows;
}

std::vector<PickRow> rows_with(const PickStore& store, const std::string& key) {
  std::vector<PickRow> rows = rows_of(store);
  std::erase_if(rows, [&](const PickRow& row) { return !row.key.starts_with(key); });
  if (!rows.empty()) return rows;
  throw_user_error("no pick in " + store.folder() + " has a key that begins with '" + key + "'", {},
                   "`heddle picks list` shows the keys");
}

Json json_of(const PickRow& row) {
  Json j = row.to_json();
  const std::string stale = stale_text(row);
  j["valid"] = stale.empty();
  if (!stale.empty()) j["not_valid"] = stale;
  return j;
}

Json json_of(const std::vector<PickRow>& rows) {
  Json list = Json::array();
  for (const PickRow& row : rows) list.push_back(json_of(row));
  return list;
}

std::string times_text(double times) { return times > 0 ? ratio(times) : ""; }

void explain(const PickRow& row) {
  const std::string stale = stale_text(row);
  std::cout << row.kernel << " " << row.shapes << ": '" << row.picked << "', "
            << to_string(row.reason) << " on " << date_text(row.unix_time) << "\n"
            << "  valid here: " << (stale.empty() ? "yes" : "no, it is of " + stale) << "\n";
  Table table({"variant", "median", "fastest", "samples", ""});
  table.align_left(4);
  for (const VariantTimes& v : row.variants) {
    double fastest = v.median();
    for (const double s : v.seconds) fastest = std::min(fastest, s);
    const bool timed = !v.seconds.empty();
    table.add_row({v.name, timed ? format_time(v.median()) : "", timed ? format_time(fastest) : "",
                   std::to_string(v.seconds.size()),
                   v.name == row.picked ? "picked"
                   : v.dropped.empty()  ? ""
                                        : "dropped: " + v.dropped});
  }
  std::cout << table.to_string();
  const auto fact = [](const char* name, const std::string& value) {
    if (!value.empty()) std::cout << "  " << name << ": " << value << "\n";
  };
  fact("speed-up over the static choice", times_text(row.speedup_over_static()));
  fact("speed-up over the slowest", times_text(row.speedup_over_worst()));
  fact("note", row.note);
  fact("measuring took", format_time(row.spent_seconds) + " and " + bytes_text(row.extra_bytes));
  fact("target", row.target);
  fact("machine", row.machine);
  fact("build", row.build);
  fact("key", row.key);
}

}  // namespace

int list_picks(const Request& o) {
  const PickStore store = store_of(o);
  std::vector<PickRow> rows = rows_of(store);
  std::erase_if(rows,
                [&](const PickRow& r) { return r.kernel.find(o.filter) == std::string::npos; });
  if (o.json) {
    std::cout << json_of(rows).dump(1) << "\n";
    return 0;
  }
  Table table({"key", "kernel", "shapes", "picked", "variants", "over static", "over worst", "date",
               "valid here"});
  for (const size_t column : {1, 2, 3, 7, 8}) table.align_left(column);
  for (const PickRow& row : rows) {
    const std::string stale = stale_text(row);
    table.add_row({row.key.substr(0, kShownKey), row.kernel, row.shapes, row.picked,
                   std::to_string(row.variants.size()), times_text(row.speedup_over_static()),
                   times_text(row.speedup_over_worst()), date_text(row.unix_time),
                   stale.empty() ? "yes" : "no, " + stale});
  }
  std::cout << table.to_string() << count_text(static_cast<int64_t>(rows.size()), "pick") << " in "
            << store.folder() << "\n";
  return 0;
}

int why_pick(const Request& o) {
  const std::vector<PickRow> rows = rows_with(store_of(o), o.key);
  if (o.json) {
    std::cout << json_of(rows).dump(1) << "\n";
  } else {
    for (const PickRow& row : rows) explain(row);
  }
  return 0;
}

int forget_picks(const Request& o) {
  if ((o.key.empty() ? 0 : 1) + (o.stale ? 1 : 0) + (o.all ? 1 : 0) != 1) {
    throw_user_error("`heddle picks forget` needs a key, --stale or --all, and one of them", {},
                     "`heddle picks list` shows the keys");
  }
  const PickStore store = store_of(o);
  std::vector<PickRow> rows = o.key.empty() ? rows_of(store) : rows_with(store, o.key);
  if (!o.key.empty() && rows.size() > 1) {
    throw_user_error(std::to_string(rows.size()) + " keys begin with '" + o.key + "'", {},
                     "write more of the key");
  }
  Json gone = Json::array();
  for (const PickRow& row : rows) {
    if (o.stale && stale_text(row).empty()) continue;
    if (store.forget(row.key)) gone.push_back(row.key);
  }
  const int damaged = o.key.empty() ? store.forget_damaged() : 0;
  if (o.json) {
    std::cout << Json::object({{"forgotten", gone}, {"damaged", damaged}}).dump(1) << "\n";
  } else {
    std::cout << "forgot " << count_text(static_cast<int64_t>(gone.size()), "pick")
              << (damaged > 0 ? " and " + count_text(damaged, "damaged file") : "") << " of "
              << store.folder() << "\n";
  }
  return 0;
}

}  // namespace heddle::cli
