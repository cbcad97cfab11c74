#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace lucid {
namespace {

// "cannot write 'a/b': No space left on device; free some space and run again"
Error SystemError(std::string_view action, const std::string& path, int code) {
  std::string_view hint;
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      hint = "; free some space and run again (the option resume goes on where it stopped)";
      break;
    case EFBIG:
      hint = "; raise the file size limit (ulimit -f) and run again";
      break;
    case EACCES:
    case EROFS:
    case EPERM:
      hint = "; choose a folder you may write to, or change its permissions";
      break;
    default:
      break;
  }
  return IoError(fmt::format("cannot {} '{}': {}{}", action, path, std::strerror(code), hint));
}

Error InUse(const std::string& path) {
  return IoError(fmt::format("'{}' is in use by another process; wait for it or stop it", path));
}

Result<int> OpenDescriptor(std::string_view action, const std::string& path, int flags,
                           unsigned mode = kOwnerOnly) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  if (fd < 0) return SystemError(action, path, errno);
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    ::close(fd);
    return SystemError(action, path, EISDIR);
  }
  return fd;
}

}  // namespace

std::string PathIn(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

Result<File> File::OpenToRead(const std::string& path) {
  LUCID_ASSIGN(const int fd, OpenDescriptor("open", path, O_RDONLY));
  return File(fd, path);
}

Result<File> File::CreateNew(const std::string& path, unsigned mode) {
  LUCID_ASSIGN(const int fd, OpenDescriptor("create", path, O_RDWR | O_CREAT | O_EXCL, mode));
  return File(fd, path);
}

Result<File> File::CreateLocked(const std::string& path) {
  LUCID_ASSIGN(const int fd, OpenDescriptor("create", path, O_RDWR | O_CREAT, 0600));
  File file(fd, path);
  LUCID_TRY(file.Lock());
  // Between opening and locking, its writer may have renamed what was opened.
  struct stat opened {
  }, named{};
  if (::fstat(fd, &opened) != 0 || ::stat(path.c_str(), &named) != 0 ||
      opened.st_ino != named.st_ino || opened.st_dev != named.st_dev) {
    return InUse(path);
  }
  if (::ftruncate(fd, 0) != 0) return SystemError("write", path, errno);
  return file;
}

Result<File> File::OpenToUpdate(const std::string& path) {
  LUCID_ASSIGN(const int fd, OpenDescriptor("open for writing", path, O_RDWR));
  return File(fd, path);
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}
File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

Result<std::uint64_t> File::Size() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) return SystemError("read the size of", path_, errno);
  return static_cast<std::uint64_t>(info.st_size);
}

Status File::ReadAt(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("read", path_, errno);
    if (n == 0) {
      return InvalidInput(fmt::format("'{}' is truncated: {} bytes missing at offset {}", path_,
                                      out.size(), offset));
    }
    offset += static_cast<std::uint64_t>(n);
    out = out.subspan(static_cast<std::size_t>(n));
  }
  return Ok();
}

Status File::WriteAt(std::uint64_t offset, std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t n = ::pwrite(fd_, data.data(), data.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError("write", path_, errno);
    offset += static_cast<std::uint64_t>(n);
    data = data.subspan(static_cast<std::size_t>(n));
  }
  return Ok();
}

Status File::Reserve(std::uint64_t size) {
  const int code = ::posix_fallocate(fd_, 0, static_cast<off_t>(size));
  if (code != 0) {
    return SystemError(fmt::format("reserve {:.1f} MB for", static_cast<double>(size) / 1e6), path_,
                       code);
  }
  return Ok();
}

Status File::Sync() {
  if (::fsync(fd_) != 0) return SystemError("sync", path_, errno);
  return Ok();
}

Status File::Lock() {
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return Ok();
  if (errno == EWOULDBLOCK) return InUse(path_);
  return SystemError("lock", path_, errno);
}

Result<MappedFile> MappedFile::Open(const std::string& path) {
  LUCID_ASSIGN(File file, File::OpenToRead(path));
  LUCID_ASSIGN(const std::uint64_t size, file.Size());
  if (size == 0) return InvalidInput(fmt::format("'{}' is empty", path));
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (data == MAP_FAILED) return SystemError("map", path, errno);
  return MappedFile(static_cast<const std::byte*>(data), size, path);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}
MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}
MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

Result<std::string> ReadTextFile(const std::string& path, std::uint64_t limit) {
  LUCID_ASSIGN(File file, File::OpenToRead(path));
  LUCID_ASSIGN(const std::uint64_t size, file.Size());
  if (size > limit) {
    return InvalidInput(fmt::format("'{}' has {} bytes, more than the limit of {} for such a file",
                                    path, size, limit));
  }
  std::string content(size, '\0');
  LUCID_TRY(file.ReadAt(0, std::as_writable_bytes(std::span(content))));
  return content;
}

Status WriteFileAtomically(const std::string& path, std::string_view content, unsigned mode) {
  const std::string temporary = fmt::format("{}.tmp-{}", path, ::getpid());
  ::unlink(temporary.c_str());
  LUCID_ASSIGN(File file, File::CreateNew(temporary, mode));
  Status written = file.WriteAt(0, std::as_bytes(std::span(content)));
  if (written.ok()) written = file.Sync();
  if (written.ok()) written = RenameDurably(temporary, path);
  if (!written.ok()) ::unlink(temporary.c_str());
  return written;
}

Status CheckOwnerOnly(const std::string& folder) {
  std::error_code code;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, code)) {
    struct stat info {};
    if (::stat(entry.path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if ((info.st_mode & 077) == 0) continue;
    return InvalidInput(
        fmt::format("'{}' has mode {:04o}: others may read or change what is made from the "
                    "training data; if they have not, chmod -R go= {}",
                    entry.path().string(), info.st_mode & 07777, folder));
  }
  return Ok();
}

Status RenameDurably(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return SystemError("rename to", to, errno);
  return SyncFolderOf(to);
}

Status SyncFolderOf(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError("open folder", folder, errno);
  const int failed = ::fsync(fd) != 0 ? errno : 0;
  ::close(fd);
  if (failed != 0 && failed != EINVAL) return SystemError("sync folder", folder, failed);
  return Ok();
}

Status MakeDirectories(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code) return SystemError("create folder", path, code.value());
  if (!std::filesystem::is_directory(path, code))
    return SystemError("create folder", path, ENOTDIR);
  return Ok();
}

}  // namespace lucid
