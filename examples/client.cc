// Asks a LUCID server for labels from C++, with libcurl and nlohmann-json.
//
//   client URL TABLE.csv
//
// Sends the table's rows to POST /predict, by column names, and prints one label per line. An API
// key is taken from the environment: LUCID_KEY. For a table without quotes in its cells.
#include <curl/curl.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Json = nlohmann::json;

// One connection, kept open between requests.
class LabelClient {
 public:
  LabelClient(std::string url, const char* key) : url_(std::move(url)), curl_(curl_easy_init()) {
    if (!curl_) throw std::runtime_error("libcurl does not start");
    AddHeader("Content-Type: application/json");
    if (key != nullptr) AddHeader(std::string("Authorization: Bearer ") + key);
  }

  std::vector<int> Labels(const Json& rows) {
    const std::string body = Json{{"rows", rows}}.dump();
    std::string answer;
    Set(CURLOPT_URL, (url_ + "/predict").c_str());
    Set(CURLOPT_HTTPHEADER, headers_.get());
    Set(CURLOPT_POSTFIELDS, body.c_str());
    Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    Set(CURLOPT_TIMEOUT, 30L);
    Set(CURLOPT_WRITEDATA, &answer);
    Set(CURLOPT_WRITEFUNCTION, &LabelClient::Append);
    if (const CURLcode code = curl_easy_perform(curl_.get()); code != CURLE_OK) {
      throw std::runtime_error(curl_easy_strerror(code));
    }
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    const Json document = Json::parse(answer);
    // Every failure has a document: {"error": "..."}.
    if (status != 200) {
      throw std::runtime_error(std::to_string(status) + ": " +
                               document.at("error").get<std::string>());
    }
    return document.at("labels").get<std::vector<int>>();
  }

 private:
  template <typename Value>
  void Set(CURLoption option, Value value) {
    curl_easy_setopt(curl_.get(), option, value);
  }
  void AddHeader(const std::string& line) {
    headers_.reset(curl_slist_append(headers_.release(), line.c_str()));
  }
  static std::size_t Append(const char* data, std::size_t size, std::size_t count,
                            std::string* answer) {
    answer->append(data, size * count);
    return size * count;
  }

  struct Free {
    void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };
  std::string url_;
  std::unique_ptr<CURL, Free> curl_;
  std::unique_ptr<curl_slist, Free> headers_;
};

std::vector<std::string> Cells(std::string line) {
  if (line.ends_with('\r')) line.pop_back();
  std::vector<std::string> cells;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
  return cells;
}

// A cell that is a number is sent as one, any other as text.
Json ValueOf(const std::string& cell) {
  double number = 0;
  const auto [end, code] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  return code == std::errc() && end == cell.data() + cell.size() ? Json(number) : Json(cell);
}

Json ReadRows(const char* path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(std::string("cannot open ") + path);
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> names = Cells(line);
  Json rows = Json::array();
  while (std::getline(in, line)) {
    const std::vector<std::string> cells = Cells(line);
    if (cells.size() != names.size()) throw std::runtime_error("not a table: " + line);
    Json& row = rows.emplace_back(Json::object());
    for (std::size_t i = 0; i < cells.size(); ++i) row[names[i]] = ValueOf(cells[i]);
  }
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: client URL TABLE.csv\n";
    return 2;
  }
  try {
    constexpr std::size_t kBatch = 256;
    const Json rows = ReadRows(argv[2]);
    LabelClient client(argv[1], std::getenv("LUCID_KEY"));
    for (std::size_t first = 0; first < rows.size(); first += kBatch) {
      const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(first);
      const auto count = static_cast<std::ptrdiff_t>(std::min(kBatch, rows.size() - first));
      for (const int label : client.Labels(Json(std::vector<Json>(begin, begin + count)))) {
        std::cout << label << "\n";
      }
    }
  } catch (const std::exception& problem) {
    std::cerr << "client: " << problem.what() << "\n";
    return 1;
  }
}
