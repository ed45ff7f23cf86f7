# /etc/profile replaces PATH in login shells; put ours back. Other variables count only where none is set.
PATH=$(sed -n 's/^PATH=//p' /etc/opencomputer/environment)
export PATH
while IFS='=' read -r oc_name oc_value; do
    case $oc_name in '' | '#'* | *[!A-Za-z0-9_]*) continue ;; esac
    eval "[ -n \"\${$oc_name+set}\" ]" || export "$oc_name=$oc_value"
done < /etc/opencomputer/environment
unset oc_name oc_value
