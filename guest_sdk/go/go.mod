module conductor/guest

go 1.24
