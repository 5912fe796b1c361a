"""The METAL device of tinygraft: the GPUs of Apple's machines, through PyObjC. Experimental."""
