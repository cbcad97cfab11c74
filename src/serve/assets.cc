#include "serve/assets.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "lucid/base/digest.h"

namespace lucid {
namespace {

constexpr std::string_view kStyle =
#include "serve/console_css.inc"
    ;
constexpr std::string_view kScript =
#include "serve/console_js.inc"
    ;
constexpr std::string_view kFrame =
#include "serve/console_html.inc"
    ;
constexpr std::string_view kOpenApi =
#include "serve/openapi_json.inc"
    ;

// 'sha256-…' of an inline element's text, as a policy names it.
std::string SourceHash(std::string_view text) {
  const Digest digest = Sha256Of(text);
  std::string base64(4 * ((digest.bytes.size() + 2) / 3) + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(base64.data()),
                                     digest.bytes.data(), static_cast<int>(digest.bytes.size()));
  base64.resize(static_cast<std::size_t>(length));
  return fmt::format("'sha256-{}'", base64);
}

// Puts `text` where `frame` has the line with `mark`.
std::string Inline(std::string frame, std::string_view mark, std::string_view text) {
  return frame.replace(frame.find(mark), mark.size(), text);
}

}  // namespace

std::string_view ConsolePage() {
  static const std::string kPage =
      Inline(Inline(std::string(kFrame), "/*console.css*/", kStyle), "/*console.js*/", kScript);
  return kPage;
}

const std::string& ConsolePolicy() {
  static const std::string kPolicy = fmt::format(
      "default-src 'none'; connect-src 'self'; img-src data:; style-src {}; script-src {}; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      SourceHash(kStyle), SourceHash(kScript));
  return kPolicy;
}

std::string_view OpenApiDocument() { return kOpenApi; }

}  // namespace lucid
