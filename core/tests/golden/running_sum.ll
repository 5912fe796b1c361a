; running_sum: no actions
define internal void @"running_sum.body"(ptr noalias %data0, ptr noalias readonly %data1) #0 {
entry:
  %acc0 = alloca i32
  store i32 0, ptr %acc0
  br label %head0
head0:
  %r0 = phi i64 [ 0, %entry ], [ %next0, %latch0 ]
  %more1 = icmp slt i64 %r0, 9
  br i1 %more1, label %loop0, label %exit0
loop0:
  %get2 = load i32, ptr %acc0
  %p3 = getelementptr inbounds i32, ptr %data1, i64 %r0
  %load4 = load i32, ptr %p3, align 4
  %old5 = load i32, ptr %acc0
  %add6 = add i32 %old5, %load4
  store i32 %add6, ptr %acc0
  %mul7 = mul i32 %get2, 2
  %add8 = add i32 %mul7, %load4
  %p9 = getelementptr inbounds i32, ptr %data0, i64 %r0
  store i32 %add8, ptr %p9, align 4
  br label %latch0
latch0:
  %next0 = add nuw nsw i64 %r0, 1
  br label %head0
exit0:
  ret void
}

define void @"running_sum"(ptr %buffers, ptr %variables) #0 {
  %at0 = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %at0
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %at1
  call void @"running_sum.body"(ptr %data0, ptr %data1)
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="256" }
