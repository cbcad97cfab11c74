#include "data/csv.h"

#include <rapidcheck.h>

#include <memory>
#include <vector>

#include "data/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Records = std::vector<std::vector<std::string>>;

// A source that hands out a few bytes at a time: every record is cut at every place.
class SlowSource final : public ByteSource {
 public:
  SlowSource(std::string_view text, std::size_t step) : inner_(MemorySource(text)), step_(step) {}
  Result<std::size_t> Read(std::span<char> out) override {
    return inner_->Read(out.first(std::min(step_, out.size())));
  }

 private:
  std::unique_ptr<ByteSource> inner_;
  std::size_t step_;
};

Result<Records> ReadAll(CsvReader csv, std::vector<std::int64_t>* lines = nullptr) {
  Records records;
  while (true) {
    LUCID_ASSIGN(const bool more, csv.Next());
    if (!more) return records;
    records.emplace_back(csv.cells().begin(), csv.cells().end());
    if (lines != nullptr) lines->push_back(csv.line());
  }
}

Result<Records> ReadAll(std::string_view text) {
  return ReadAll(CsvReader(MemorySource(text), "f.csv"));
}

TEST(Csv, ReadsPlainAndQuotedCells) {
  EXPECT_EQ(ReadAll("a,b\n\"c,d\",\"e\"\"f\"\n").value(), (Records{{"a", "b"}, {"c,d", "e\"f"}}));
  EXPECT_EQ(ReadAll("\"\",\"\"\"\"\n").value(), (Records{{"", "\""}}));
  EXPECT_EQ(ReadAll(",\n").value(), (Records{{"", ""}}));
}

TEST(Csv, TheLastLineEndIsOptional) {
  EXPECT_EQ(ReadAll("a,b\nc,d").value(), (Records{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(ReadAll("a,\"b\"").value(), (Records{{"a", "b"}}));
  EXPECT_EQ(ReadAll("a,").value(), (Records{{"a", ""}}));
  EXPECT_EQ(ReadAll("").value(), Records{});
}

TEST(Csv, AcceptsCrLfAndAByteOrderMark) {
  EXPECT_EQ(ReadAll("\xef\xbb\xbf"
                    "a,b\r\n\"c\",d\r\n")
                .value(),
            (Records{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(ReadAll("\"a\r\nb\"\r\n").value(), (Records{{"a\r\nb"}})) << "kept inside quotes";
}

TEST(Csv, FindsTheSeparatorInTheFirstRecord) {
  const auto read = [](std::string_view text) {
    CsvReader csv(MemorySource(text), "f.csv");
    csv.DetectSeparator();
    return ReadAll(std::move(csv)).value();
  };
  EXPECT_EQ(read("a;b\n1,5;2\n"), (Records{{"a", "b"}, {"1,5", "2"}}));
  EXPECT_EQ(read("a\tb\n1;5\t2\n"), (Records{{"a", "b"}, {"1;5", "2"}}));
  EXPECT_EQ(read("\"a,,,\";b\n\"1;\";2\n"), (Records{{"a,,,", "b"}, {"1;", "2"}}));
  EXPECT_EQ(read("a,b\n1;5,2\n"), (Records{{"a", "b"}, {"1;5", "2"}}));
  EXPECT_EQ(read("a,b;c\n1,2\n"), (Records{{"a", "b;c"}, {"1", "2"}})) << "as many: commas";
  EXPECT_EQ(read("alone"), (Records{{"alone"}}));
  EXPECT_EQ(read(""), Records{});
  // Longer than what is read at once.
  const std::string wide(100'000, 'x');
  const std::string text = wide.substr(0, 60'000) + ";" + wide.substr(0, 60'000) + "\n1;2\n";
  EXPECT_EQ(read(text)[1], (std::vector<std::string>{"1", "2"}));
  // Nobody who does not ask for it gets another separator.
  EXPECT_EQ(ReadAll("a;b\n").value(), (Records{{"a;b"}}));
}

TEST(Csv, LinesCountThoseInsideQuotes) {
  std::vector<std::int64_t> lines;
  const std::string text = "h\n\"a\n\"\"\n\n\"\nb\n\"c\"\n";
  ASSERT_TRUE(ReadAll(CsvReader(MemorySource(text), "f.csv"), &lines).ok());
  EXPECT_EQ(lines, (std::vector<std::int64_t>{1, 2, 6, 7}));
}

TEST(Csv, ErrorsNameTheLineOfTheFault) {
  EXPECT_EQ(Message(ReadAll("a\nb\"c\n")),
            "f.csv:2: quote inside the unquoted cell 1 (put the whole cell in quotes and double "
            "those in it)");
  EXPECT_EQ(Message(ReadAll("a\n\"b\nc\"d\n")), "f.csv:3: text after the closing quote of cell 1");
  EXPECT_EQ(Message(ReadAll("a\n\"b\n\",\"c\nd\n")),
            "f.csv:3: a quoted cell begins here and is never closed");
  EXPECT_EQ(Message(ReadAll("a\rb\r")), "f.csv:1: carriage return without a line feed");
  EXPECT_EQ(Message(ReadAll("a\nb\r")), "f.csv:2: carriage return without a line feed");
  EXPECT_EQ(Message(ReadAll(std::string_view("a\nb\0c\n", 6))), "f.csv:2: NUL byte in a cell");
  EXPECT_EQ(Message(ReadAll(std::string_view("a\n\"b\n\0\"\n", 8))), "f.csv:3: NUL byte in a cell");
}

TEST(Csv, GzipDataUnderAPlainNameIsSaidToBeThat) {
  EXPECT_EQ(Message(ReadAll(Gzip("a,b\n"))),
            "f.csv:1: this is gzip data, but the file name does not end in '.gz'");
}

TEST(Csv, CellsThatLookLikeTheStartOfAnotherFormatSurviveWriting) {
  for (const char* cell : {"\x1f\x8b", "\xef\xbb\xbf", "\xef\xbb\xbf\x1f\x8b"}) {
    std::string text;
    const std::string_view cells[] = {cell, "b"};
    AppendCsvRecord(text, cells);
    EXPECT_EQ(ReadAll(text).value(), (Records{{cell, "b"}}));
  }
}

TEST(Csv, RefusesWhatIsBeyondALimit) {
  const CsvLimits limits{.file_bytes = 1000, .record_bytes = 100, .cell_bytes = 20};
  const auto read = [&](const std::string& text) {
    return ReadAll(CsvReader(MemorySource(text), "f.csv", limits));
  };
  EXPECT_EQ(read(std::string(20, 'x') + "\n").value().size(), 1u);
  EXPECT_EQ(Message(read("a\nb," + std::string(21, 'x') + "\n")),
            "f.csv:2: cell 2 is longer than 20 bytes");
  std::string wide;
  for (int i = 0; i < 60; ++i) wide += "x,";
  EXPECT_EQ(Message(read("a\n" + wide + "\n")), "f.csv:2: the record is longer than 100 bytes");
  std::string tall;
  for (int i = 0; i < 501; ++i) tall += "a\n";
  EXPECT_THAT(Message(read(tall)), HasSubstr("the file has more than 1000 bytes"));
}

TEST(Csv, ALineThatNeverEndsIsRefusedWithoutReadingItAll) {
  // Far more than the buffer, in small steps; the reader may not ask for much more than a record.
  class Endless final : public ByteSource {
   public:
    explicit Endless(std::uint64_t& given) : given_(given) {}
    Result<std::size_t> Read(std::span<char> out) override {
      std::fill(out.begin(), out.end(), given_ == 0 ? '"' : 'x');
      if (given_ == 0) std::fill(out.begin() + 1, out.end(), 'x');
      given_ += out.size();
      return out.size();
    }
    std::uint64_t& given_;
  };
  std::uint64_t given = 0;
  const CsvLimits limits{.file_bytes = 1u << 30, .record_bytes = 1u << 20, .cell_bytes = 1u << 20};
  EXPECT_EQ(Message(ReadAll(CsvReader(std::make_unique<Endless>(given), "f.csv", limits))),
            "f.csv:1: the record is longer than 1048576 bytes (the quote opened on line 1 is not "
            "closed)");
  EXPECT_LT(given, 3u << 20);
}

TEST(Csv, GzipBombStopsAtTheSizeLimit) {
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += "0,0\n";
  const std::string bomb = Gzip(text);
  ASSERT_LT(bomb.size(), text.size() / 200);
  const CsvLimits limits{.file_bytes = 1'000'000, .record_bytes = 1000, .cell_bytes = 100};
  EXPECT_THAT(Message(ReadAll(CsvReader(GunzipSource(MemorySource(bomb)), "bomb.csv.gz", limits))),
              HasSubstr("the file has more than 1000000 bytes decompressed"));
}

TEST(Gunzip, ReadsSeveralMembers) {
  const std::string two = Gzip("a,b\n") + Gzip("c,d\n");
  EXPECT_EQ(ReadAll(CsvReader(GunzipSource(MemorySource(two)), "f.csv.gz")).value(),
            (Records{{"a", "b"}, {"c", "d"}}));
}

TEST(Gunzip, EveryCutIsATruncation) {
  const std::string whole = Gzip("first,row\nsecond,row\n");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    EXPECT_THAT(Message(ReadAll(CsvReader(GunzipSource(MemorySource(cut)), "f.csv.gz"))),
                testing::MatchesRegex("f.csv.gz:[123]: the gzip stream is cut off"))
        << size << " of " << whole.size() << " bytes";
  }
}

TEST(Gunzip, NoFlippedBitChangesTheDataUnseen) {
  const std::string text = "first,row\nsecond,row\nthird,row\n", whole = Gzip(text);
  const Records records = ReadAll(text).value();
  int unseen = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bad = whole;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    const Result<Records> read = ReadAll(CsvReader(GunzipSource(MemorySource(bad)), "f.csv.gz"));
    if (!read.ok()) continue;
    EXPECT_EQ(*read, records) << "bit " << bit;
    ++unseen;
  }
  // Time stamp, flags and system in the header, and padding: nothing else is without a check.
  EXPECT_LE(unseen, 8 * 7 + 7);
}

TEST(Gunzip, RefusesTextBehindTheStreamAndTextThatIsNone) {
  const std::string behind = Gzip("a\n") + "tail";
  EXPECT_THAT(Message(ReadAll(CsvReader(GunzipSource(MemorySource(behind)), "f.csv.gz"))),
              HasSubstr("the gzip stream is corrupt"));
  EXPECT_THAT(Message(ReadAll(CsvReader(GunzipSource(MemorySource("a,b\n")), "f.csv.gz"))),
              StartsWith("f.csv.gz:1: the gzip stream is corrupt"));
}

// Cells with a taste for what is special in CSV.
rc::Gen<Records> AnyRecords() {
  const auto cell = rc::gen::container<std::string>(
      rc::gen::elementOf(std::string("ab,\"\n\r \xc3\xa9\xef\xbb\xbf")));
  return rc::gen::container<Records>(
      rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(cell)));
}

TEST(CsvProperty, WhatIsWrittenIsReadHoweverTheBytesArrive) {
  EXPECT_TRUE(rc::check([] {
    const Records records = *rc::gen::resize(40, AnyRecords());
    const auto step = *rc::gen::inRange<std::size_t>(1, 9);
    std::string text;
    std::vector<std::int64_t> expected_lines;
    for (const auto& record : records) {
      expected_lines.push_back(1 + std::count(text.begin(), text.end(), '\n'));
      const std::vector<std::string_view> cells(record.begin(), record.end());
      AppendCsvRecord(text, cells);
    }
    const CsvLimits limits{
        .file_bytes = 1u << 20, .record_bytes = 1u << 16, .cell_bytes = 1u << 16};
    std::vector<std::int64_t> lines;
    const Result<Records> read =
        ReadAll(CsvReader(std::make_unique<SlowSource>(text, step), "f.csv", limits), &lines);
    RC_ASSERT(read.ok());
    RC_ASSERT(*read == records);
    RC_ASSERT(lines == expected_lines);
  }));
}

TEST(CsvProperty, ErrorsDoNotDependOnHowTheBytesArrive) {
  EXPECT_TRUE(rc::check([] {
    const auto text =
        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab,\"\n\r\0", 7)));
    const CsvLimits limits{
        .file_bytes = 1u << 20, .record_bytes = 1u << 16, .cell_bytes = 1u << 16};
    const Result<Records> whole = ReadAll(CsvReader(MemorySource(text), "f.csv", limits));
    const Result<Records> slow =
        ReadAll(CsvReader(std::make_unique<SlowSource>(text, 1), "f.csv", limits));
    RC_ASSERT(whole.ok() == slow.ok());
    RC_ASSERT(Message(whole) == Message(slow));
    if (whole.ok()) RC_ASSERT(*whole == *slow);
  }));
}

}  // namespace
}  // namespace lucid
