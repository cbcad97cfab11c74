// CSV as in RFC 4180, read as a stream and written.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_source.h"
#include "lucid/base/result.h"

namespace lucid {

// A file beyond a limit is refused: a line that never ends, the wrong file, or a gzip bomb.
struct CsvLimits {
  std::uint64_t file_bytes = std::uint64_t{4} << 30;  // decompressed
  std::size_t record_bytes = std::size_t{4} << 20;
  std::size_t cell_bytes = std::size_t{64} << 10;
};

// Reads record by record; memory is one buffer as long as a few records, whatever the text's size.
// Accepted: LF or CRLF line ends, the last one optional; a UTF-8 byte order mark; quoted cells with
// commas, line ends and doubled quotes. Refused: NUL bytes, a lone CR, a quote inside an unquoted
// cell, text after a closing quote, an open quote at the end. Errors begin "name:line: ".
class CsvReader {
 public:
  CsvReader(std::unique_ptr<ByteSource> source, std::string name, const CsvLimits& limits = {});

  // Cells may also be separated by ';' or tabs: by whichever of the three the first record has most
  // of (commas, if there are as many). Requires: Next() was not called yet.
  void DetectSeparator() { detect_ = true; }

  // Goes to the next record; false at the end. Not to be called again after false or an error.
  Result<bool> Next();

  // The cells of the record, unquoted. Valid until the next call of Next().
  std::span<const std::string_view> cells() const { return cells_; }
  // The line on which the record begins, from 1; at the end, that of the last record.
  std::int64_t line() const { return line_; }
  const std::string& name() const { return name_; }
  bool blank() const { return cells_.size() == 1 && cells_[0].empty(); }

  // "name:line: what", for what the caller finds wrong in this record.
  Error ErrorHere(std::string_view what) const { return ErrorAt(line_, what); }

 private:
  enum class Scan { kComplete, kNeedsMore };
  struct Span {  // offsets from begin_, so that they survive a Refill()
    std::size_t begin;
    std::size_t end;
    bool escaped;  // holds doubled quotes
  };

  Error ErrorAt(std::int64_t line, std::string_view what) const;
  std::int64_t LineOf(const char* at) const;
  Status Refill();
  Status CheckStart();
  Status FindSeparator();
  const char* FindStop(const char* at) const;
  Result<Scan> ScanRecord();
  Result<Scan> ScanQuoted(const char*& at, Span& cell);
  Result<Scan> ScanLineEnd(const char*& at);
  void UnquoteCells();

  std::unique_ptr<ByteSource> source_;
  std::string name_;
  CsvLimits limits_;
  std::size_t capacity_;
  std::unique_ptr<char[]> buffer_;
  const char* begin_;  // of the record
  const char* next_;   // behind the record
  const char* end_;    // of what is in the buffer
  std::uint64_t bytes_read_ = 0;
  bool at_end_ = false;  // the source has no more
  bool started_ = false;
  bool detect_ = false;
  char separator_ = ',';
  std::int64_t line_ = 1;             // on which the record begins
  std::int64_t next_line_ = 1;        // on which the next one begins
  std::int64_t open_quote_line_ = 0;  // of the quote that the last scan found open, or 0
  std::vector<Span> spans_;           // the complete cells of the record
  std::size_t scanned_ = 0;           // the offset behind them
  std::vector<std::string_view> cells_;
};

// The cell without the blanks around it.
std::string_view Trimmed(std::string_view cell);

// Appends one record with LF; quotes only the cells that need it. Requires: no NUL byte in a cell.
void AppendCsvRecord(std::string& out, std::span<const std::string_view> cells);

}  // namespace lucid
