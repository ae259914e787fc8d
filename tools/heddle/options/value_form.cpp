#include "options/value_form.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "heddle/support/error.h"
#include "subjects/arguments.h"
#include "subjects/input_file.h"
#include "support/edit_distance.h"

namespace heddle::cli {
namespace {

template <class T>
std::optional<T> as(const std::string& text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && after == end ? std::optional<T>(value) : std::nullopt;
}

std::string short_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace

std::optional<int64_t> as_whole_number(const std::string& text) { return as<int64_t>(text); }
std::optional<double> as_number(const std::string& text) { return as<double>(text); }

ValueForm no_value() { return {}; }

ValueForm commas(ValueForm form) {
  form.several = Several::Commas;
  return form;
}

ValueForm words(ValueForm form) {
  form.several = Several::Words;
  return form;
}

ValueForm text(std::string word, std::string legal, std::string example) {
  return {std::move(word), std::move(legal), std::move(example)};
}

ValueForm whole_number(int64_t least, int64_t most) {
  const bool open = most == std::numeric_limits<int64_t>::max();
  std::string legal = "a whole number from " + std::to_string(least) +
                      (open ? std::string(" on") : " to " + std::to_string(most));
  return {"N", std::move(legal), std::to_string(std::max<int64_t>(least, 1)),
          [least, most](const std::string& text) -> std::optional<Mistake> {
            const std::optional<int64_t> n = as_whole_number(text);
            if (n && *n >= least && *n <= most) return std::nullopt;
            return Mistake{};
          }};
}

ValueForm number(double least, double most) {
  return {"X", "a number from " + short_text(least) + " to " + short_text(most),
          short_text(std::clamp(1.0, least, most)),
          [least, most](const std::string& text) -> std::optional<Mistake> {
            const std::optional<double> n = as_number(text);
            if (n && *n >= least && *n <= most) return std::nullopt;
            return Mistake{};
          }};
}

ValueForm one_of(std::vector<std::string> words) {
  std::string legal = "one of " + join(words), example = words.front();
  return {"WORD", std::move(legal), std::move(example),
          [known = std::move(words)](const std::string& text) -> std::optional<Mistake> {
            if (std::find(known.begin(), known.end(), text) != known.end()) return std::nullopt;
            return Mistake{"", did_you_mean(text, known)};
          }};
}

ValueForm read_by(std::string word, std::string legal, std::string example,
                  std::function<void(const std::string&)> read) {
  return {std::move(word), std::move(legal), std::move(example),
          [read = std::move(read)](const std::string& text) -> std::optional<Mistake> {
            try {
              read(text);
              return std::nullopt;
            } catch (const Error& e) {
              if (e.kind != ErrorKind::User) throw;
              return Mistake{e.message, e.help};
            }
          }};
}

ValueForm file_there(std::string example) {
  return {"FILE", "a file that is there", std::move(example),
          [](const std::string& path) -> std::optional<Mistake> {
            const std::string wrong = why_no_file(path);
            if (wrong.empty()) return std::nullopt;
            return Mistake{wrong, ""};
          }};
}

ValueForm folder_there() {
  return {"FOLDER", "a folder that is there", "/tmp",
          [](const std::string& path) -> std::optional<Mistake> {
            std::error_code error;
            if (std::filesystem::is_directory(path, error)) return std::nullopt;
            return Mistake{"there is no such folder", ""};
          }};
}

}  // namespace heddle::cli
