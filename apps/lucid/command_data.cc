// lucid data: inspects, converts, generates and fetches data sets.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "lucid/data/catalogue.h"
#include "lucid/data/dataset.h"
#include "lucid/data/infer_schema.h"
#include "lucid/data/npz.h"
#include "lucid/data/summary.h"
#include "lucid/data/synthetic.h"

namespace lucid::app {
namespace {

using Json = nlohmann::ordered_json;

// Names that come from the user's file may hold anything; a table on a terminal may not.
std::string Printable(std::string_view text) {
  std::string shown(text);
  std::ranges::replace_if(
      shown, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '.');
  return shown;
}

std::string Count(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

// "Private 22,696, Self-emp-not-inc 2,541, ... (8 categories, 1,836 missing)"
std::string CategoryText(const Column& column, const ColumnSummary& summary) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, column.categories.size()); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", Printable(column.categories[i]),
                        Count(summary.counts[i]));
  }
  if (column.categories.size() > kShown) {
    text += fmt::format(", ... ({} categories)", column.categories.size());
  }
  if (summary.missing > 0) text += fmt::format(", '?' {}", Count(summary.missing));
  return text;
}

std::string ColumnTable(const Schema& schema, const TableSummary& table) {
  std::size_t name_width = 6;
  for (const Column& column : schema.columns()) {
    name_width = std::max(name_width, column.name.size());
  }
  std::string text = fmt::format("  {:<{}}  {:<14}  {:>6}  {:>8}  {}\n", "column", name_width,
                                 "kind", "inputs", "distinct", "values");
  for (std::size_t c = 0; c < schema.columns().size(); ++c) {
    const Column& column = schema.columns()[c];
    const ColumnSummary& summary = table.columns[c];
    const std::string values = column.kind == ColumnKind::kNumeric
                                   ? fmt::format("{} to {}", summary.min, summary.max)
                                   : CategoryText(column, summary);
    text += fmt::format("  {:<{}}  {:<14}  {:>6}  {:>8}  {}\n", Printable(column.name), name_width,
                        KindName(column.kind), column.width(), Count(summary.distinct), values);
  }
  return text;
}

std::string TableText(const Schema& schema, const TableSummary& table) {
  std::string text = fmt::format("{}\n  rows            {}\n", table.path, Count(table.rows));
  const std::vector<std::int64_t>& classes = table.columns[schema.label_index()].counts;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    text += fmt::format("  class {:<9} {} ({:.1f} %) {}\n", i, Count(classes[i]),
                        100 * static_cast<double>(classes[i]) / static_cast<double>(table.rows),
                        Printable(schema.label().categories[i]));
  }
  text += fmt::format("  repeated rows   {}\n", Count(table.duplicate_rows));
  text += fmt::format("  encoded range   {} to {}\n", table.encoded_min, table.encoded_max);
  if (table.clipped > 0) text += fmt::format("  clipped values  {}\n", Count(table.clipped));
  return text;
}

std::string DescribeText(const DatasetSummary& summary) {
  std::string text = fmt::format("{} columns, {} inputs in [0,1], {} classes\n\n",
                                 summary.schema.columns().size() - 1, summary.schema.features(),
                                 summary.schema.classes());
  text += TableText(summary.schema, summary.train);
  text += ColumnTable(summary.schema, summary.train);
  if (summary.test) {
    text += "\n" + TableText(summary.schema, *summary.test);
    text += fmt::format("  also in train   {}\n", Count(summary.test_rows_in_train));
  }
  return text;
}

Json TableJson(const Schema& schema, const TableSummary& table) {
  Json columns = Json::array();
  for (std::size_t c = 0; c < schema.columns().size(); ++c) {
    const Column& column = schema.columns()[c];
    const ColumnSummary& summary = table.columns[c];
    Json item = {{"column", column.name},
                 {"kind", KindName(column.kind)},
                 {"inputs", column.width()},
                 {"distinct", summary.distinct}};
    if (column.kind == ColumnKind::kNumeric) {
      item["min"] = summary.min;
      item["max"] = summary.max;
    } else {
      Json counts = Json::array();
      for (std::size_t i = 0; i < column.categories.size(); ++i) {
        counts.push_back({{"category", column.categories[i]}, {"rows", summary.counts[i]}});
      }
      item["categories"] = std::move(counts);
      item["missing"] = summary.missing;
    }
    columns.push_back(std::move(item));
  }
  return {{"path", table.path},
          {"rows", table.rows},
          {"class_counts", table.columns[schema.label_index()].counts},
          {"duplicate_rows", table.duplicate_rows},
          {"encoded_min", table.encoded_min},
          {"encoded_max", table.encoded_max},
          {"clipped", table.clipped},
          {"sha256", table.digest.Hex()},
          {"columns", std::move(columns)}};
}

Json DescribeJson(const DatasetSummary& summary) {
  Json document = {{"features", summary.schema.features()},
                   {"classes", summary.schema.label().categories},
                   {"feature_names", summary.schema.feature_names()},
                   {"schema_sha256", summary.schema_digest.Hex()},
                   {"train", TableJson(summary.schema, summary.train)}};
  if (summary.test) {
    document["test"] = TableJson(summary.schema, *summary.test);
    document["test_rows_in_train"] = summary.test_rows_in_train;
  }
  return document;
}

void AddDescribe(CLI::App& data, Session& session) {
  struct Options {
    std::string directory;
    LoadOptions load;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = AddCommand(
      data, session, "describe", "Shows what a data directory holds",
      "lucid data synth2d --out synth2d && lucid data describe synth2d",
      [options, &session]() -> Result<ExitCode> {
        LUCID_ASSIGN(const DatasetSummary summary,
                     DescribeDataset(options->directory, options->load));
        LUCID_TRY(session.json ? PrintJson(DescribeJson(summary)) : Print(DescribeText(summary)));
        return kDone;
      });
  command->add_option("DIR", options->directory, "Data directory")->required();
  command->add_flag("--clip", options->load.clip, "Clip values outside [0,1] instead of refusing");
}

void AddEncode(CLI::App& data, Session& session) {
  struct Options {
    std::string directory, out;
    LoadOptions load;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = AddCommand(
      data, session, "encode", "Writes the encoded arrays for NumPy",
      "lucid data synth2d --out synth2d && lucid data encode synth2d --out synth2d.npz",
      [options, &session]() -> Result<ExitCode> {
        LUCID_ASSIGN(const Dataset dataset, LoadDataset(options->directory, options->load));
        LUCID_TRY(WriteNpz(dataset, options->out));
        const std::int64_t clipped = dataset.train.clipped + dataset.test.clipped;
        if (session.json) {
          LUCID_TRY(PrintJson({{"out", options->out},
                               {"features", dataset.features()},
                               {"classes", dataset.classes()},
                               {"train_rows", dataset.train.rows()},
                               {"test_rows", dataset.test.rows()},
                               {"clipped", clipped}}));
          return kDone;
        }
        if (clipped > 0) session.Say(fmt::format("clipped {} values", clipped));
        LUCID_TRY(Print(fmt::format("{}: train_x [{}, {}], test_x [{}, {}]\n", options->out,
                                    dataset.train.rows(), dataset.features(), dataset.test.rows(),
                                    dataset.features())));
        return kDone;
      });
  command->add_option("DIR", options->directory, "Data directory")->required();
  command->add_option("--out", options->out, "NPZ file to write")->required();
  command->add_flag("--clip", options->load.clip, "Clip values outside [0,1] instead of refusing");
}

// Says what is now in `directory`, for the commands that made it.
Result<ExitCode> ReportDirectory(const Session& session, const std::string& directory) {
  LUCID_ASSIGN(const Dataset dataset, LoadDataset(directory));
  if (session.json) {
    LUCID_TRY(PrintJson({{"directory", directory},
                         {"features", dataset.features()},
                         {"classes", dataset.classes()},
                         {"train_rows", dataset.train.rows()},
                         {"test_rows", dataset.test.rows()},
                         {"schema_sha256", dataset.schema_digest.Hex()},
                         {"train_sha256", dataset.train_digest.Hex()},
                         {"test_sha256", dataset.test_digest.Hex()}}));
  } else {
    LUCID_TRY(Print(fmt::format("{}: {} training rows, {} test rows, {} inputs, {} classes\n",
                                directory, dataset.train.rows(), dataset.test.rows(),
                                dataset.features(), dataset.classes())));
  }
  return kDone;
}

void AddSynth2d(CLI::App& data, Session& session) {
  struct Options {
    std::string out;
    Synthetic2dOptions synthetic;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = AddCommand(
      data, session, "synth2d", "Generates the two-dimensional data set of the paper",
      "lucid data synth2d --rows 7000 --out synth2d", [options, &session]() -> Result<ExitCode> {
        options->synthetic.seed = session.seed;
        LUCID_TRY(WriteSynthetic2d(options->out, options->synthetic));
        return ReportDirectory(session, options->out);
      });
  command->add_option("--rows", options->synthetic.rows, "Training rows")->capture_default_str();
  command->add_option("--test-rows", options->synthetic.test_rows,
                      "Test rows (0: three for every seven training rows)");
  command
      ->add_option("--overlap", options->synthetic.overlap,
                   "Half width of the band where the classes mix")
      ->capture_default_str();
  command->add_option("--out", options->out, "Folder to make")->required();
  command->add_flag("--overwrite", options->synthetic.overwrite,
                    "Replace a data set that is there");
}

void AddSchema(CLI::App& data, Session& session) {
  struct Options {
    std::string csv, out, missing = "fill";
    InferOptions infer;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = AddCommand(
      data, session, "schema", "Makes a data directory of one CSV by a rule that no unit decides",
      "lucid data synth2d --out points && lucid data schema points/train.csv --label label --out "
      "made",
      [options, &session]() -> Result<ExitCode> {
        options->infer.split_key = session.seed;
        options->infer.proposal = options->out + ".schema.csv";
        LUCID_ASSIGN(options->infer.missing, MissingCellsNamed(options->missing));
        LUCID_ASSIGN(const InferredSchema made,
                     InferSchema(options->csv, options->infer, options->out));
        Json columns = Json::array();
        std::string text;
        for (const ColumnDecision& column : made.columns) {
          columns.push_back(
              {{"column", column.name}, {"what", column.what}, {"margin", column.margin}});
          text += fmt::format(
              "{}: {}{}\n", Printable(column.name), column.what,
              column.margin == 0
                  ? ""
                  : fmt::format("; {} units would have to leave to change that", column.margin));
        }
        if (session.json) {
          LUCID_TRY(PrintJson({{"directory", options->out},
                               {"rows", made.rows},
                               {"units", made.units},
                               {"train_rows", made.train_rows},
                               {"test_rows", made.test_rows},
                               {"rows_left_out", made.left_out},
                               {"missing_cells", made.missing_cells},
                               {"rows_with_missing_left_out", made.rows_with_missing},
                               {"columns", std::move(columns)}}));
          return kDone;
        }
        LUCID_TRY(Print(text + fmt::format("{}: {} training rows, {} test rows, {} inputs, {} "
                                           "classes\n",
                                           options->out, made.train_rows, made.test_rows,
                                           made.schema.features(), made.schema.classes())));
        if (made.schema.origin() == SchemaOrigin::kFromData) {
          session.Say(
              "enough for the promise labels; for full, look at schema.csv, write ranges and "
              "categories that you would give any data of this kind, make its last line "
              "'# declared = true', and use it with --declared");
        }
        return kDone;
      });
  command->add_option("FILE", options->csv, "CSV file [.gz] with a header")->required();
  command->add_option("--label", options->infer.label, "Column of the classes")->required();
  command->add_option("--unit", options->infer.unit, "Column that says whose row it is");
  command
      ->add_option("--ignore", options->infer.ignore,
                   "Columns to leave out, with commas between them")
      ->delimiter(',');
  command->add_option("--declared", options->infer.declared,
                      "schema.csv whose columns are taken as they are");
  command
      ->add_option("--missing", options->missing,
                   "What missing cells become: fill (middle of the range, 'other'), drop (the row "
                   "is left out) or refuse (an error)")
      ->check(CLI::IsMember({"fill", "drop", "refuse"}))
      ->capture_default_str();
  command->add_option("--test", options->infer.test_share, "Share of the units that test")
      ->capture_default_str();
  command->add_option("--out", options->out, "Folder to make")->required();
  command->add_flag("--overwrite", options->infer.overwrite, "Replace a data set that is there");
}

Status PrintCatalogue(const Session& session, const std::vector<CatalogueEntry>& catalogue) {
  Json list = Json::array();
  std::string text;
  for (const CatalogueEntry& entry : catalogue) {
    std::int64_t bytes = 0;
    Json files = Json::array();
    for (const CatalogueFile& file : entry.files) {
      bytes += file.bytes;
      files.push_back({{"name", file.name},
                       {"url", file.url},
                       {"sha256", file.sha256.Hex()},
                       {"bytes", file.bytes}});
    }
    text += fmt::format("{:<14} {:>5} kB  {} classes  {}\n{:26}Licence: {}\n{:26}{}\n", entry.name,
                        (bytes + 999) / 1000, entry.schema.classes(), entry.title, "",
                        entry.licence, "", entry.citation);
    list.push_back({{"name", entry.name},
                    {"title", entry.title},
                    {"licence", entry.licence},
                    {"citation", entry.citation},
                    {"features", entry.schema.features()},
                    {"classes", entry.schema.label().categories},
                    {"files", std::move(files)}});
  }
  return session.json ? PrintJson({{"datasets", std::move(list)}}) : Print(text);
}

void AddFetch(CLI::App& data, Session& session) {
  struct Options {
    std::string name, out;
    bool list = false;
    FetchOptions fetch;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = AddCommand(
      data, session, "fetch", "Downloads a public data set, checks it and makes a data directory",
      "lucid data fetch --list", [options, &session]() -> Result<ExitCode> {
        LUCID_ASSIGN(const std::vector<CatalogueEntry> catalogue, LoadCatalogue());
        if (options->list) {
          LUCID_TRY(PrintCatalogue(session, catalogue));
          return kDone;
        }
        if (options->name.empty() || options->out.empty()) {
          return InvalidInput("fetch needs a NAME and --out DIR, or --list to see the names");
        }
        LUCID_ASSIGN(const CatalogueEntry entry, FindInCatalogue(catalogue, options->name));
        options->fetch.progress = session.Progress();
        options->fetch.stop = session.stop;
        LUCID_TRY(FetchDataset(entry, options->out, options->fetch));
        session.Say(fmt::format("licence: {}; please cite: {}", entry.licence, entry.citation));
        return ReportDirectory(session, options->out);
      });
  command->add_option("NAME", options->name, "Name in the catalogue");
  command->add_option("--out", options->out, "Folder to make");
  command->add_option("--from", options->fetch.from,
                      "Folder with the original files, or another base URL");
  command->add_flag("--list", options->list, "Show the catalogue");
  command->add_flag("--overwrite", options->fetch.overwrite, "Replace a data set that is there");
}

}  // namespace

void AddDataCommand(CLI::App& root, Session& session) {
  CLI::App* data =
      root.add_subcommand("data", "Inspects, converts, generates or fetches data sets");
  data->require_subcommand(1);
  data->footer("Start with:  lucid data synth2d --out synth2d");
  AddDescribe(*data, session);
  AddEncode(*data, session);
  AddSynth2d(*data, session);
  AddFetch(*data, session);
  AddSchema(*data, session);
}

}  // namespace lucid::app
