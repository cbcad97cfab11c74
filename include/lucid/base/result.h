// Result<T>: a value or an Error. The library never prints, aborts or exits; a call that went wrong
// says what, where, which value and which limit in one line.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace lucid {

enum class ErrorKind {
  kInvalidInput,  // the caller's data, options or file are wrong
  kIo,            // the system refused: no space, no permission, no such file
  kMismatch,      // two artefacts that should belong together do not
  kInterrupted,   // stopped on request; what was finished is kept
  kInternal,      // a bug in LUCID
};

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
};

inline Error InvalidInput(std::string message) {
  return {ErrorKind::kInvalidInput, std::move(message)};
}
inline Error IoError(std::string message) { return {ErrorKind::kIo, std::move(message)}; }
inline Error Mismatch(std::string message) { return {ErrorKind::kMismatch, std::move(message)}; }
inline Error Interrupted(std::string message) {
  return {ErrorKind::kInterrupted, std::move(message)};
}
inline Error InternalError(std::string message) {
  return {ErrorKind::kInternal, std::move(message)};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Requires: ok(). (std::get throws otherwise: a caller that did not look is a bug, never silent.)
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Requires: !ok().
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

// Success carries nothing: `return Ok();`.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return error_.value(); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;
inline Status Ok() { return {}; }

}  // namespace lucid

#define LUCID_CONCAT_INNER(a, b) a##b
#define LUCID_CONCAT(a, b) LUCID_CONCAT_INNER(a, b)

// LUCID_TRY(expr): returns the error of a Status or Result to the caller, otherwise goes on.
#define LUCID_TRY(expr)                                        \
  do {                                                         \
    if (const auto& lucid_status = (expr); !lucid_status.ok()) \
      return ::lucid::Error(lucid_status.error());             \
  } while (false)

// LUCID_ASSIGN(auto x, expr): declares or assigns from a Result, or returns its error.
#define LUCID_ASSIGN(declaration, expr)                                   \
  auto LUCID_CONCAT(lucid_result_, __LINE__) = (expr);                    \
  if (!LUCID_CONCAT(lucid_result_, __LINE__).ok())                        \
    return ::lucid::Error(LUCID_CONCAT(lucid_result_, __LINE__).error()); \
  declaration = std::move(LUCID_CONCAT(lucid_result_, __LINE__)).value()
