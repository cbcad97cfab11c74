// For tests: is a page well-formed?
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lucid {

// The first thing that is not well-formed, or "". Knows what the pages use: elements with quoted
// attributes, a declaration, a document type; no comments, no CDATA.
inline std::string Problem(std::string_view text) {
  std::vector<std::string> open;
  std::set<std::string> ids;
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at)) {
    std::size_t end = at + 1;
    for (char quote = 0; end < text.size() && (quote != 0 || text[end] != '>'); ++end) {
      if (text[end] == '<') return "'<' inside a tag: " + std::string(text.substr(at, 60));
      if (quote == 0 && text[end] == '"')
        quote = '"';
      else if (text[end] == quote)
        quote = 0;
    }
    if (end >= text.size()) return "a tag without end";
    const std::string_view tag = text.substr(at + 1, end - at - 1);
    const std::string name(tag.substr(0, tag.find_first_of(" /", 1)));
    if (const std::size_t id = tag.find(" id=\""); id != std::string_view::npos) {
      const std::size_t start = id + 5;
      if (!ids.emplace(tag.substr(start, tag.find('"', start) - start)).second)
        return "an id twice";
    }
    at = end;
    if (tag.front() == '?' || tag.front() == '!' || tag.back() == '/') continue;
    if (tag.front() != '/') {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != name) {
      return "<" + std::string(tag) + "> closes what is not open";
    } else {
      open.pop_back();
    }
  }
  if (!open.empty()) return "<" + open.back() + "> is not closed";
  for (std::size_t at = text.find('&'); at != std::string_view::npos; at = text.find('&', at + 1)) {
    const std::string_view entity = text.substr(at, text.find(';', at) - at);
    if (entity != "&amp" && entity != "&lt" && entity != "&gt" && entity != "&quot" &&
        !entity.starts_with("&#")) {
      return "a bare '&': " + std::string(text.substr(at, 20));
    }
  }
  return "";
}

}  // namespace lucid
