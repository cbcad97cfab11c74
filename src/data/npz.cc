#include "lucid/data/npz.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zip.h>

#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace lucid {
namespace {

static_assert(std::endian::native == std::endian::little,
              "arrays are written as they are in memory");

// The NPY 1.0 preamble: magic, version, length of the header, header padded to a multiple of 64.
std::string NpyPreamble(std::string_view type, const std::string& shape) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, shape);
  constexpr std::size_t kBefore = 10, kAlignment = 64;
  const std::size_t unpadded = kBefore + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string preamble("\x93NUMPY\x01\x00", 8);
  preamble += static_cast<char>(header.size() & 0xff);
  preamble += static_cast<char>(header.size() >> 8);
  return preamble + header;
}

// An archive under construction. libzip reads the arrays when it closes, so they must stay alive
// (and unmoved: hence the deque) until Close() is done.
class NpzFile {
 public:
  explicit NpzFile(const std::string& path) {
    int code = 0;
    archive_ = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (archive_ == nullptr) {
      zip_error_t error;
      zip_error_init_with_code(&error, code);
      failure_ = zip_error_strerror(&error);
      zip_error_fini(&error);
    }
  }
  ~NpzFile() {
    if (archive_ != nullptr) zip_discard(archive_);
  }
  NpzFile(const NpzFile&) = delete;
  NpzFile& operator=(const NpzFile&) = delete;

  void Add(const std::string& name, std::string_view type, const std::string& shape,
           std::span<const std::byte> data) {
    if (!failure_.empty()) return;
    Part& part = parts_.emplace_back();
    part.preamble = NpyPreamble(type, shape);
    part.fragments[0] = {reinterpret_cast<zip_uint8_t*>(part.preamble.data()),
                         part.preamble.size()};
    // libzip's type is not const, but it only reads.
    part.fragments[1] = {reinterpret_cast<zip_uint8_t*>(const_cast<std::byte*>(data.data())),
                         data.size()};
    zip_source_t* source =
        zip_source_buffer_fragment(archive_, part.fragments, data.empty() ? 1 : 2, 0);
    if (source == nullptr) return Fail();
    const zip_int64_t index =
        zip_file_add(archive_, (name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(source);
      return Fail();
    }
    const auto i = static_cast<zip_uint64_t>(index);
    // 1 January 1980 0:00 in the archive's own calendar: no clock and no time zone in the bytes.
    constexpr zip_uint16_t kMidnight = 0, kFirstDay = 1 << 5 | 1;
    if (zip_set_file_compression(archive_, i, ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(archive_, i, kMidnight, kFirstDay, 0) != 0) {
      Fail();
    }
  }

  // Ensures: empty and the archive is written, or what went wrong.
  std::string Close() {
    if (failure_.empty() && zip_close(archive_) == 0) {
      archive_ = nullptr;
    } else if (failure_.empty()) {
      Fail();
    }
    return failure_;
  }

 private:
  struct Part {
    std::string preamble;
    zip_buffer_fragment_t fragments[2];
  };

  void Fail() { failure_ = zip_strerror(archive_); }

  zip_t* archive_ = nullptr;
  std::deque<Part> parts_;
  std::string failure_;
};

Status SyncAndRename(const std::string& from, const std::string& to) {
  LUCID_ASSIGN(File file, File::OpenToUpdate(from));
  LUCID_TRY(file.Sync());
  return RenameDurably(from, to);
}

}  // namespace

Status WriteNpz(const Dataset& dataset, const std::string& path) {
  const std::string temporary = fmt::format("{}.tmp-{}", path, ::getpid());
  std::string failure;
  {
    std::deque<std::vector<std::int64_t>> labels;
    NpzFile file(temporary);
    for (const auto& [name, table] : {std::pair<std::string, const Table&>("train", dataset.train),
                                      std::pair<std::string, const Table&>("test", dataset.test)}) {
      const auto& y = labels.emplace_back(table.y.begin(), table.y.end());
      file.Add(name + "_x", "<f4", fmt::format("{}, {}", table.rows(), table.features),
               std::as_bytes(std::span(table.x)));
      file.Add(name + "_y", "<i8", fmt::format("{},", table.rows()), std::as_bytes(std::span(y)));
    }
    failure = file.Close();
  }
  Status written = failure.empty() ? SyncAndRename(temporary, path)
                                   : IoError(fmt::format("cannot write '{}': {}", path, failure));
  if (!written.ok()) ::unlink(temporary.c_str());
  return written;
}

}  // namespace lucid
