#include "data/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace lucid {
namespace {

constexpr std::size_t kBlock = std::size_t{64} << 10;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kGzipMagic = "\x1f\x8b";

// The bytes at which an unquoted cell may stop: what may end it and what may not be in it.
constexpr auto kStops = [] {
  std::array<bool, 256> stops{};
  for (const char c : {',', ';', '\t', '\n', '\r', '"', '\0'})
    stops[static_cast<unsigned char>(c)] = true;
  return stops;
}();

bool MaySeparate(char c) { return c == ',' || c == ';' || c == '\t'; }

std::size_t Distance(const char* from, const char* to) {
  return static_cast<std::size_t>(to - from);
}

// Beside the characters of CSV itself: what means something at the start of a file.
bool NeedsQuotes(std::string_view cell) {
  return cell.find_first_of(",\"\r\n") != std::string_view::npos ||
         cell.starts_with(kByteOrderMark) || cell.starts_with(kGzipMagic);
}

}  // namespace

CsvReader::CsvReader(std::unique_ptr<ByteSource> source, std::string name, const CsvLimits& limits)
    : source_(std::move(source)),
      name_(std::move(name)),
      limits_(limits),
      capacity_(2 * kBlock),
      buffer_(std::make_unique_for_overwrite<char[]>(capacity_)),
      begin_(buffer_.get()),
      next_(begin_),
      end_(begin_) {}

Result<bool> CsvReader::Next() {
  if (!started_) LUCID_TRY(CheckStart());
  const std::int64_t last_line = std::exchange(line_, next_line_);
  begin_ = next_;
  scanned_ = 0;
  spans_.clear();
  while (true) {
    if (begin_ < end_) {
      LUCID_ASSIGN(const Scan scan, ScanRecord());
      if (scan == Scan::kComplete) break;
    }
    if (at_end_) {
      if (begin_ == end_) {
        line_ = last_line;  // what is missing is missing behind the last record
        return false;
      }
      return ErrorAt(open_quote_line_, "a quoted cell begins here and is never closed");
    }
    LUCID_TRY(Refill());
  }
  if (Distance(begin_, next_) > limits_.record_bytes) {
    return ErrorHere(fmt::format("the record is longer than {} bytes", limits_.record_bytes));
  }
  next_line_ = LineOf(next_);  // before unquoting moves bytes
  UnquoteCells();
  return true;
}

Error CsvReader::ErrorAt(std::int64_t line, std::string_view what) const {
  return InvalidInput(fmt::format("{}:{}: {}", name_, line, what));
}

std::int64_t CsvReader::LineOf(const char* at) const {
  return line_ + std::count(begin_, at, '\n');
}

const char* CsvReader::FindStop(const char* at) const {
  while (at < end_ &&
         (!kStops[static_cast<unsigned char>(*at)] || (MaySeparate(*at) && *at != separator_))) {
    ++at;
  }
  return at;
}

// Moves the begun record to the front of the buffer (a larger one if it must be) and reads one
// block behind it.
Status CsvReader::Refill() {
  const std::size_t kept = Distance(begin_, end_);
  if (kept > limits_.record_bytes) {
    std::string what = fmt::format("the record is longer than {} bytes", limits_.record_bytes);
    if (open_quote_line_ > 0) {
      what += fmt::format(" (the quote opened on line {} is not closed)", open_quote_line_);
    }
    return ErrorHere(what);
  }
  if (kept + kBlock > capacity_) {
    capacity_ = 2 * (kept + kBlock);
    auto larger = std::make_unique_for_overwrite<char[]>(capacity_);
    std::memcpy(larger.get(), begin_, kept);
    buffer_ = std::move(larger);
  } else {
    std::memmove(buffer_.get(), begin_, kept);
  }
  begin_ = next_ = buffer_.get();
  end_ = begin_ + kept;
  const std::span<char> free(buffer_.get() + kept, kBlock);
  const Result<std::size_t> n = source_->Read(free);
  if (!n.ok() && n.error().kind == ErrorKind::kInvalidInput) return ErrorHere(n.error().message);
  if (!n.ok()) return n.error();
  at_end_ = *n == 0;
  end_ += *n;
  bytes_read_ += *n;
  if (bytes_read_ > limits_.file_bytes) {
    return ErrorHere(fmt::format("the file has more than {} bytes{}", limits_.file_bytes,
                                 name_.ends_with(".gz") ? " decompressed" : ""));
  }
  return Ok();
}

Status CsvReader::CheckStart() {
  started_ = true;
  while (!at_end_ && Distance(begin_, end_) < kByteOrderMark.size()) LUCID_TRY(Refill());
  const std::string_view start(begin_, Distance(begin_, end_));
  if (start.starts_with(kGzipMagic)) {
    return ErrorHere("this is gzip data, but the file name does not end in '.gz'");
  }
  if (start.starts_with(kByteOrderMark)) next_ += kByteOrderMark.size();
  begin_ = next_;
  return detect_ ? FindSeparator() : Ok();
}

// Counts what may separate cells in the first record, outside of quotes.
Status CsvReader::FindSeparator() {
  std::size_t at = 0;
  std::int64_t commas = 0, semicolons = 0, tabs = 0;
  for (bool quoted = false;; ++at) {
    while (!at_end_ && begin_ + at == end_) LUCID_TRY(Refill());
    if (begin_ + at == end_) break;
    const char c = begin_[at];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\n') break;
    commas += c == ',' ? 1 : 0;
    semicolons += c == ';' ? 1 : 0;
    tabs += c == '\t' ? 1 : 0;
  }
  if (semicolons > commas) separator_ = ';';
  if (tabs > std::max(commas, semicolons)) separator_ = '\t';
  return Ok();
}

// Goes on with the record at begin_ from its first cell that is not complete. kNeedsMore: the
// buffer ends first; call again when there is more.
Result<CsvReader::Scan> CsvReader::ScanRecord() {
  open_quote_line_ = 0;
  while (true) {
    const char* at = begin_ + scanned_;
    Span cell{scanned_, scanned_, false};
    if (at < end_ && *at == '"') {
      LUCID_ASSIGN(const Scan scan, ScanQuoted(at, cell));
      if (scan == Scan::kNeedsMore) return scan;
    } else {
      at = FindStop(at);
      cell.end = Distance(begin_, at);
    }
    if (cell.end - cell.begin > limits_.cell_bytes) {
      return ErrorAt(
          LineOf(begin_ + cell.begin),
          fmt::format("cell {} is longer than {} bytes", spans_.size() + 1, limits_.cell_bytes));
    }
    const bool more_cells = at < end_ && *at == separator_;
    if (more_cells) {
      ++at;
    } else {
      LUCID_ASSIGN(const Scan scan, ScanLineEnd(at));
      if (scan == Scan::kNeedsMore) return scan;
    }
    spans_.push_back(cell);
    scanned_ = Distance(begin_, at);
    if (!more_cells) break;
  }
  next_ = begin_ + scanned_;
  return Scan::kComplete;
}

// `at` is on an opening quote; ensures, if complete: it is behind the closing one.
Result<CsvReader::Scan> CsvReader::ScanQuoted(const char*& at, Span& cell) {
  const char* quote = at;
  cell.begin = Distance(begin_, at + 1);
  while (true) {
    quote = static_cast<const char*>(std::memchr(quote + 1, '"', Distance(quote + 1, end_)));
    const bool undecided = quote != nullptr && quote + 1 == end_ && !at_end_;
    if (quote == nullptr || undecided) {
      open_quote_line_ = LineOf(at);
      return Scan::kNeedsMore;
    }
    if (quote + 1 == end_ || quote[1] != '"') break;
    cell.escaped = true;
    ++quote;
  }
  cell.end = Distance(begin_, quote);
  at = quote + 1;
  const void* nul = std::memchr(begin_ + cell.begin, '\0', cell.end - cell.begin);
  if (nul != nullptr) return ErrorAt(LineOf(static_cast<const char*>(nul)), "NUL byte in a cell");
  if (at < end_ && *at != separator_ && *at != '\n' && *at != '\r') {
    return ErrorAt(LineOf(at),
                   fmt::format("text after the closing quote of cell {}", spans_.size() + 1));
  }
  return Scan::kComplete;
}

// `at` is behind a cell and not on a separator; ensures, if complete: it is behind the record.
Result<CsvReader::Scan> CsvReader::ScanLineEnd(const char*& at) {
  if (at == end_) return at_end_ ? Scan::kComplete : Scan::kNeedsMore;
  switch (*at) {
    case '\n':
      ++at;
      return Scan::kComplete;
    case '\r':
      if (at + 1 == end_ && !at_end_) return Scan::kNeedsMore;
      if (at + 1 == end_ || at[1] != '\n') {
        return ErrorAt(LineOf(at), "carriage return without a line feed");
      }
      at += 2;
      return Scan::kComplete;
    case '"':
      return ErrorAt(LineOf(at), fmt::format("quote inside the unquoted cell {} (put the whole "
                                             "cell in quotes and double those in it)",
                                             spans_.size() + 1));
    default:
      return ErrorAt(LineOf(at), "NUL byte in a cell");
  }
}

void CsvReader::UnquoteCells() {
  char* const record = buffer_.get() + Distance(buffer_.get(), begin_);
  cells_.clear();
  for (const Span& span : spans_) {
    std::size_t out = span.begin;
    if (span.escaped) {
      // Inside the cell's own bytes of the buffer: a quote less for every pair.
      for (std::size_t in = span.begin; in < span.end; ++in) {
        record[out++] = record[in];
        if (record[in] == '"') ++in;
      }
    } else {
      out = span.end;
    }
    cells_.emplace_back(record + span.begin, out - span.begin);
  }
}

std::string_view Trimmed(std::string_view cell) {
  const std::size_t first = cell.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return cell.substr(first, cell.find_last_not_of(' ') - first + 1);
}

void AppendCsvRecord(std::string& out, std::span<const std::string_view> cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) out += ',';
    const std::string_view cell = cells[i];
    if (!NeedsQuotes(cell)) {
      out += cell;
      continue;
    }
    out += '"';
    for (const char c : cell) {
      if (c == '"') out += '"';
      out += c;
    }
    out += '"';
  }
  out += '\n';
}

}  // namespace lucid
