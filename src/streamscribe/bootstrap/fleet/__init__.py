"""Worker processes behind one gateway process: started, watched, replaced, and asked as one."""
