// Files whose errors name the path and what to do, and writes that are all or nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lucid/base/result.h"

namespace lucid {

// Modes of files. What is made from training data is its owner's, unless somebody says otherwise.
inline constexpr unsigned kOwnerOnly = 0600, kForEverybody = 0644;

std::string PathIn(const std::string& folder, const std::string& name);

// An open file descriptor. Move-only; closes on destruction. Thread-safe: reads and writes are
// positioned.
class File {
 public:
  static Result<File> OpenToRead(const std::string& path);
  // Refuses an existing file. mode: as for open(2), less the process's umask.
  static Result<File> CreateNew(const std::string& path, unsigned mode = kOwnerOnly);
  // Creates the file, or takes over one whose writer died; locked (see Lock), empty, kOwnerOnly.
  static Result<File> CreateLocked(const std::string& path);
  static Result<File> OpenToUpdate(const std::string& path);  // read and write, must exist
  // A file that the caller opened in a way of its own. `fd` belongs to the File from here on.
  static File Adopt(int fd, std::string path) { return {fd, std::move(path)}; }
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  Result<std::uint64_t> Size() const;
  // Reads exactly out.size() bytes; a shorter file is an error ("truncated").
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const;
  Status WriteAt(std::uint64_t offset, std::span<const std::byte> data);
  // Reserves the blocks of [0, size): a full disk is an error now, not in the middle of the work.
  Status Reserve(std::uint64_t size);
  Status Sync();
  // Exclusive advisory lock, released on close or death. Fails at once if another process has it.
  Status Lock();

  const std::string& path() const { return path_; }
  int descriptor() const { return fd_; }

 private:
  File(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_ = -1;
  std::string path_;
};

// A read-only memory map of a whole file. Move-only.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(const std::byte* data, std::size_t size, std::string path)
      : data_(data), size_(size), path_(std::move(path)) {}
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string path_;
};

// Ensures: the whole content, or an error. `limit` guards against reading the wrong file into
// memory.
Result<std::string> ReadTextFile(const std::string& path, std::uint64_t limit = 1ull << 30);

// Ensures: after success `path` holds exactly `content`, synced; after failure (or a kill at any
// moment) it holds what it held before. Written to a temporary file beside it, synced, renamed.
// mode: of the new file, as for open(2).
Status WriteFileAtomically(const std::string& path, std::string_view content,
                           unsigned mode = kOwnerOnly);

// Errors: a file in the folder or below it that anybody but its owner may read or change. A folder
// that is not there holds none.
Status CheckOwnerOnly(const std::string& folder);

// Renames `from` to `to` and syncs the folder, so that the new name survives a power cut.
Status RenameDurably(const std::string& from, const std::string& to);

// Makes changes of names in the folder that `path` is in survive a power cut.
Status SyncFolderOf(const std::string& path);

Status MakeDirectories(const std::string& path);

}  // namespace lucid
