#include "data/byte_source.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/files.h"

namespace lucid {
namespace {

class Memory final : public ByteSource {
 public:
  explicit Memory(std::string_view text) : rest_(text) {}

  Result<std::size_t> Read(std::span<char> out) override {
    const std::size_t n = std::min(out.size(), rest_.size());
    std::copy_n(rest_.begin(), n, out.begin());
    rest_.remove_prefix(n);
    return n;
  }

 private:
  std::string_view rest_;
};

class Plain final : public ByteSource {
 public:
  explicit Plain(File file) : file_(std::move(file)) {}

  // read(2), not pread(2): a pipe is as good as a file.
  Result<std::size_t> Read(std::span<char> out) override {
    ssize_t n = -1;
    do {
      n = ::read(file_.descriptor(), out.data(), out.size());
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
      return IoError(fmt::format("cannot read '{}': {}", file_.path(), std::strerror(errno)));
    }
    return static_cast<std::size_t>(n);
  }

 private:
  File file_;
};

class Gunzip final : public ByteSource {
 public:
  explicit Gunzip(std::unique_ptr<ByteSource> compressed) : compressed_(std::move(compressed)) {
    constexpr int kGzipWithLargestWindow = 15 + 16;
    ready_ = inflateInit2(&stream_, kGzipWithLargestWindow) == Z_OK;
  }
  ~Gunzip() override { inflateEnd(&stream_); }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  Result<std::size_t> Read(std::span<char> out) override {
    if (!ready_) return InternalError("zlib cannot start to decompress");
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), 1u << 30));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      LUCID_ASSIGN(const bool more, FillInput());
      if (!more && !in_member_ && members_ > 0) return std::size_t{0};
      if (!more) return InvalidInput("the gzip stream is cut off");
      if (!in_member_) {
        inflateReset(&stream_);
        in_member_ = true;
      }
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        in_member_ = false;
        ++members_;
      } else if (code != Z_OK) {
        const char* why = stream_.msg != nullptr ? stream_.msg : "bad data";
        return InvalidInput(fmt::format("the gzip stream is corrupt: {}", why));
      }
    }
    return static_cast<std::size_t>(wanted - stream_.avail_out);
  }

 private:
  Result<bool> FillInput() {
    if (stream_.avail_in == 0) {
      LUCID_ASSIGN(const std::size_t n, compressed_->Read(input_));
      stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
      stream_.avail_in = static_cast<uInt>(n);
    }
    return stream_.avail_in > 0;
  }

  std::unique_ptr<ByteSource> compressed_;
  std::array<char, 1 << 16> input_;
  z_stream stream_{};
  bool ready_ = false;
  bool in_member_ = false;
  int members_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> MemorySource(std::string_view text) {
  return std::make_unique<Memory>(text);
}

std::unique_ptr<ByteSource> GunzipSource(std::unique_ptr<ByteSource> compressed) {
  return std::make_unique<Gunzip>(std::move(compressed));
}

Result<std::unique_ptr<ByteSource>> OpenSource(const std::string& path) {
  LUCID_ASSIGN(File file, File::OpenToRead(path));
  std::unique_ptr<ByteSource> source = std::make_unique<Plain>(std::move(file));
  if (path.ends_with(".gz")) source = GunzipSource(std::move(source));
  return source;
}

}  // namespace lucid
