#include "subjects/arguments.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "heddle/support/error.h"
#include "support/edit_distance.h"

namespace heddle::cli {
namespace {

std::string example(const Grammar& g) { return "for example " + g.example; }

std::vector<std::string> names_of(const Grammar& g) {
  std::vector<std::string> names;
  for (const Parameter& p : g.parameters) names.push_back(p.name);
  return names;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

const Parameter& parameter(const Grammar& g, const std::string& name) {
  for (const Parameter& p : g.parameters) {
    if (p.name == name) return p;
  }
  std::string hint = did_you_mean(name, names_of(g));
  if (!hint.empty()) hint += " ";
  throw_user_error(g.kind + " has no argument '" + name + "'", {},
                   hint + "its arguments are " + join(names_of(g)) + "; " + example(g));
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void check_value(const Grammar& g, const Parameter& p, const std::string& value) {
  if (!p.choices.empty()) {
    if (std::find(p.choices.begin(), p.choices.end(), value) != p.choices.end()) return;
    throw_user_error(g.kind + ": " + p.name + " cannot be '" + value + "'", {},
                     "it is one of " + join(p.choices) + "; " + example(g));
  }
  const std::optional<int64_t> number = whole_number(value);
  if (!number) {
    throw_user_error(g.kind + ": " + p.name + " must be a whole number, not '" + value + "'", {},
                     example(g));
  }
  if (*number < p.least || *number > p.most) {
    throw_user_error(g.kind + ": " + p.name + " is " + value + "; it must be " +
                         std::to_string(p.least) + " to " + std::to_string(p.most),
                     {}, example(g));
  }
}

}  // namespace

Parameter flag(std::string name, std::string help) {
  return {std::move(name), "0", std::move(help), {}, 0, 1};
}

std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  size_t begin = 0;
  for (size_t end = 0; (end = text.find(separator, begin)) != std::string_view::npos;) {
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  pieces.emplace_back(text.substr(begin));
  return pieces;
}

std::string join(const std::vector<std::string>& parts, const std::string& separator) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : separator) + part;
  return out;
}

std::string Grammar::form() const {
  std::vector<std::string> dims, named, optional;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (static_cast<int>(i) < positional) {
      dims.push_back(upper(p.name));
    } else if (p.fallback.empty()) {
      named.push_back(p.name + "=" + upper(p.name));
    } else {
      const bool same = p.fallback[0] == '=';
      optional.push_back(p.name + "=" + (same ? p.fallback.substr(1) : p.fallback));
    }
  }
  std::vector<std::string> given = std::move(named);
  if (!dims.empty()) given.insert(given.begin(), join(dims, "x"));
  std::string out = kind + ":" + join(given, ",");
  if (!optional.empty()) {
    out += (given.empty() ? "[" : "[,") + join(optional, ",") + "]";
  }
  return out;
}

const std::string& Arguments::text(std::string_view name) const {
  for (const auto& [key, value] : values_) {
    if (key == name) return value;
  }
  throw_internal_error("a subject reads its argument '" + std::string(name) +
                       "', which it does not list");
}

int64_t Arguments::operator[](std::string_view name) const { return *whole_number(text(name)); }

const std::string& Arguments::word(std::string_view name) const { return text(name); }

Arguments parse_arguments(const Grammar& g, const std::string& text) {
  std::vector<std::optional<std::string>> given(g.parameters.size());
  auto set = [&](const std::string& name, const std::string& value) {
    const Parameter& p = parameter(g, name);
    auto& slot = given[static_cast<size_t>(&p - g.parameters.data())];
    if (slot) throw_user_error(g.kind + ": " + name + " is given twice", {}, example(g));
    check_value(g, p, value);
    slot = value;
  };

  std::vector<std::string> pieces =
      text.empty() ? std::vector<std::string>() : split_text(text, ',');
  for (size_t i = 0; i < pieces.size(); ++i) {
    const size_t equals = pieces[i].find('=');
    if (equals != std::string::npos) {
      set(pieces[i].substr(0, equals), pieces[i].substr(equals + 1));
      continue;
    }
    const std::vector<std::string> dims = split_text(pieces[i], 'x');
    if (i > 0 || g.positional == 0) {
      throw_user_error(g.kind + ": '" + pieces[i] + "' is not of the form name=value", {},
                       "write " + g.form() + "; " + example(g));
    }
    if (static_cast<int>(dims.size()) != g.positional) {
      throw_user_error(g.kind + ": '" + pieces[i] + "' has " + std::to_string(dims.size()) +
                           " extents, not " + std::to_string(g.positional),
                       {}, "write " + g.form() + "; " + example(g));
    }
    for (size_t d = 0; d < dims.size(); ++d) set(g.parameters[d].name, dims[d]);
  }

  Arguments out;
  for (size_t i = 0; i < given.size(); ++i) {
    const Parameter& p = g.parameters[i];
    if (!given[i] && p.fallback.empty()) {
      throw_user_error(g.kind + " needs '" + p.name + "' (" + p.help + ")", {},
                       "write " + g.form() + "; " + example(g));
    }
    std::string value = given[i].value_or(p.fallback);
    // A default may refer to an earlier parameter, whose value is known at this point.
    if (value[0] == '=') value = out.text(value.substr(1));
    out.values_.emplace_back(p.name, std::move(value));
  }
  return out;
}

}  // namespace heddle::cli
